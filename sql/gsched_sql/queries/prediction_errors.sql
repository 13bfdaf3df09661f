-- The median of |predicted - actual| of each kind and model; `truth` as in prediction_truth.sql.
SELECT kind, model_id, AVG(error) AS median_error
FROM (
    SELECT
        kind,
        model_id,
        ABS(mean - actual) AS error,
        ROW_NUMBER() OVER (
            PARTITION BY kind, model_id ORDER BY ABS(mean - actual), id
        ) AS place,
        COUNT(*) OVER (PARTITION BY kind, model_id) AS known
    FROM truth
    WHERE actual IS NOT NULL
) AS placed
WHERE 2 * place BETWEEN known AND known + 2
GROUP BY kind, model_id
