-- Logical jobs by phase, NULL: unclassified, with their GPU-time and how many jobs that is known of.
SELECT phase, COUNT(*) AS jobs, COUNT(gpu_time_s) AS gpu_time_jobs, SUM(gpu_time_s) AS gpu_time_s
FROM jobs
GROUP BY phase
ORDER BY COUNT(*) DESC, COALESCE(phase, '')
