-- The same as usage_by.sql of what pruned jobs have left: `chosen` are rows of `usage_days`.
SELECT
    grp,
    state,
    SUM(jobs) AS jobs,
    SUM(attempts) AS attempts,
    SUM(gpu_time_jobs) AS gpu_time_jobs,
    SUM(gpu_time_s) AS gpu_time_s,
    SUM(cpu_time_jobs) AS cpu_time_jobs,
    SUM(cpu_time_s) AS cpu_time_s,
    SUM(duration_jobs) AS duration_jobs,
    SUM(duration_s) AS duration_s,
    SUM(queueing_jobs) AS queueing_jobs,
    SUM(queueing_s) AS queueing_s
FROM chosen
GROUP BY grp, state
