-- What gsched has written to Slurm, the last 100 changes: round, job, value before and after, why.
SELECT
    rounds.round_id,
    rounds.policy,
    actions.job_id,
    actions.array_task,
    actions.channel,
    actions.before,
    actions.after,
    actions.reason_code,
    actions.state
FROM actions
JOIN rounds ON rounds.round_id = actions.round_id
WHERE actions.state <> 'observed'
ORDER BY actions.id DESC
LIMIT 100
