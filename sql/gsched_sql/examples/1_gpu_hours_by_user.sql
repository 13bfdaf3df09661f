-- GPU-hours by user of the jobs that ended since 2026-01-01 (UTC), and how many of them are known.
SELECT
    users.name AS user_name,
    COUNT(*) AS jobs,
    COUNT(jobs.gpu_time_s) AS gpu_time_jobs,
    SUM(jobs.gpu_time_s) / 3600.0 AS gpu_hours
FROM jobs
LEFT JOIN users ON users.id = jobs.user_id
WHERE jobs.end_time >= 1767225600
GROUP BY users.name
ORDER BY SUM(jobs.gpu_time_s) DESC
