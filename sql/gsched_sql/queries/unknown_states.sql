-- Attempts by a state text that gsched does not know.
SELECT COALESCE(state_text, state) AS state_text, COUNT(*) AS attempts
FROM attempts
WHERE state = 'UNKNOWN'
GROUP BY COALESCE(state_text, state)
ORDER BY COUNT(*) DESC, COALESCE(state_text, state)
