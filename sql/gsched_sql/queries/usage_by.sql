-- Sums over logical jobs by group and last state: `gsched history --by`.
-- `chosen` are the rows of `jobs` that the filters take, each with its group `grp`. GPU-time and
-- CPU-time are of all attempts, the run time is of the last one; …_jobs is how many jobs each sum
-- is over: of the others it is not known.
SELECT
    grp,
    state,
    COUNT(*) AS jobs,
    SUM(num_attempts) AS attempts,
    COUNT(gpu_time_s) AS gpu_time_jobs,
    SUM(gpu_time_s) AS gpu_time_s,
    COUNT(cpu_time_s) AS cpu_time_jobs,
    SUM(cpu_time_s) AS cpu_time_s,
    COUNT(duration_s) AS duration_jobs,
    SUM(duration_s) AS duration_s,
    COUNT(queueing_s) AS queueing_jobs,
    SUM(queueing_s) AS queueing_s
FROM chosen
GROUP BY grp, state
