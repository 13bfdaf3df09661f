-- How often the truth was at most the value of a quantile, which should be its probability;
-- `truth` as in prediction_truth.sql.
SELECT
    truth.kind,
    truth.model_id,
    prediction_quantiles.probability,
    COUNT(*) AS known,
    SUM(CASE WHEN truth.actual <= prediction_quantiles.value THEN 1 ELSE 0 END) AS covered
FROM truth
JOIN prediction_quantiles ON prediction_quantiles.prediction_id = truth.id
WHERE truth.actual IS NOT NULL
GROUP BY truth.kind, truth.model_id, prediction_quantiles.probability
ORDER BY truth.kind, truth.model_id, prediction_quantiles.probability
