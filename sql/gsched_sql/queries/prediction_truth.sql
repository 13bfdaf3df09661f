-- Predictions by what they are of and by whom, and how many of them have met their truth.
-- `truth`: predictions, each with what came true (`actual`; NULL: not yet, or never to be).
SELECT
    kind,
    model_id,
    COUNT(*) AS made,
    COUNT(actual) AS known,
    AVG(mean - actual) AS mean_error
FROM truth
GROUP BY kind, model_id
ORDER BY kind, model_id
