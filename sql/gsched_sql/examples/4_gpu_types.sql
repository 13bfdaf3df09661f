-- What was given by type of GPU: attempts and GPU-hours.
SELECT
    tres_counts.name AS gpu_type,
    COUNT(*) AS attempts,
    SUM(tres_counts.count * (attempts.end_time - attempts.start_time)) / 3600.0 AS gpu_hours
FROM attempts
JOIN tres_counts ON tres_counts.tres_list_id = attempts.allocated_id
WHERE tres_counts.name LIKE 'gres/gpu:%'
    AND attempts.end_time IS NOT NULL
    AND attempts.start_time IS NOT NULL
GROUP BY tres_counts.name
ORDER BY 3 DESC
