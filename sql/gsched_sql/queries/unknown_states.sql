-- Attempts by a state text that gsched does not know.
SELECT state_text, COUNT(*) AS attempts
FROM attempts
WHERE state = 'UNKNOWN'
GROUP BY state_text
ORDER BY COUNT(*) DESC, state_text
