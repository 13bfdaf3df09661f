-- On which nodes attempts fail: ended attempts by node, and how many of them not by themselves.
SELECT
    nodes.name AS node,
    COUNT(*) AS attempts,
    SUM(CASE WHEN attempts.state IN ('NODE_FAIL', 'FAILED', 'OUT_OF_MEMORY') THEN 1 ELSE 0 END)
        AS failed,
    SUM(CASE WHEN attempts.state = 'NODE_FAIL' THEN 1 ELSE 0 END) AS node_fail
FROM attempts
JOIN node_list_members ON node_list_members.node_list_id = attempts.node_list_id
JOIN nodes ON nodes.id = node_list_members.node_id
WHERE attempts.end_time IS NOT NULL
GROUP BY nodes.name
ORDER BY 3 DESC
