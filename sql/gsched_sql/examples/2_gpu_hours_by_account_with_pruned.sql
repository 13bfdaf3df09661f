-- GPU-hours by account over all times: jobs that are kept, and the sums of those that were pruned.
SELECT tenants.name AS account, SUM(held.gpu_time_s) / 3600.0 AS gpu_hours
FROM (
    SELECT tenant_id, gpu_time_s FROM jobs
    UNION ALL
    SELECT tenant_id, gpu_time_s FROM usage_days
) AS held
LEFT JOIN tenants ON tenants.id = held.tenant_id
GROUP BY tenants.name
ORDER BY SUM(held.gpu_time_s) DESC
