-- How many job names some groups have, and the first and the last that were met.
SELECT group_id, COUNT(*) AS num_names, MIN(id) AS first_id, MAX(id) AS last_id
FROM job_names
WHERE group_id IN :groups
GROUP BY group_id
