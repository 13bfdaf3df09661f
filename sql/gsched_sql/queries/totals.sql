-- What `gsched db stats` says of logical jobs. A job is finished when its last attempt has ended.
-- GPU-time is summed over the finished jobs of which it is known; gpu_time_jobs is that count.
SELECT
    MIN(epoch) AS first_submit,
    MAX(end_time) AS last_end,
    SUM(CASE WHEN end_time IS NOT NULL THEN 1 ELSE 0 END) AS finished_jobs,
    SUM(CASE WHEN gpu_time_s IS NOT NULL THEN 1 ELSE 0 END) AS gpu_time_jobs,
    SUM(gpu_time_s) AS gpu_time_s
FROM jobs
