-- The jobs that waited longest, with all of their requeues.
SELECT
    clusters.name AS cluster,
    jobs.job_id,
    jobs.array_task,
    users.name AS user_name,
    job_names.name AS job_name,
    jobs.num_gpus,
    jobs.queueing_s / 3600.0 AS queueing_hours,
    jobs.num_attempts
FROM jobs
JOIN clusters ON clusters.id = jobs.cluster_id
LEFT JOIN users ON users.id = jobs.user_id
LEFT JOIN job_names ON job_names.id = jobs.name_id
WHERE jobs.queueing_s IS NOT NULL
ORDER BY jobs.queueing_s DESC
LIMIT 20
