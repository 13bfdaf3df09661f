-- Logical jobs by state of their last attempt.
SELECT state, COUNT(*) AS jobs
FROM jobs
GROUP BY state
ORDER BY COUNT(*) DESC, state
