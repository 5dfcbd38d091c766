-- Every statement of the store that is not built from parts. Names in [brackets] get the namespace in front.
-- `(…) /* rows */` is repeated for as many rows as are bound; spare rows are bound as NULL and match nothing.
-- What brings many rows answers with one row of JSON: each row fetched would hand the GIL over.

-- name: enqueue
INSERT INTO [jobs] (id, queue, task, kind, prio, state, due, key, created, headers, args)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) /* rows */
ON CONFLICT (id) DO NOTHING

-- name: ids_after
SELECT json_group_array(id) FROM [jobs] WHERE seq > ?

-- name: last_seq
SELECT max(seq) FROM [jobs]

-- name: ids_known
SELECT json_group_array(id) FROM [jobs] WHERE id IN (SELECT value FROM json_each(?))

-- name: key_holders
SELECT json_group_object(k.key, j.id) FROM [keys] k JOIN [jobs] j ON j.seq = k.seq
WHERE k.key IN (SELECT value FROM json_each(?))

-- name: keys_take
INSERT OR REPLACE INTO [keys] (key, seq) SELECT key, seq FROM [jobs] WHERE id IN (SELECT value FROM json_each(?))

-- name: keys_free
DELETE FROM [keys] WHERE seq IN (SELECT value FROM json_each(?1)) AND key IN (
    SELECT key FROM [jobs] WHERE seq IN (SELECT value FROM json_each(?1)) AND state >= 4)

-- name: keys_free_ids
DELETE FROM [keys] WHERE (key, seq) IN (
    SELECT key, seq FROM [jobs] WHERE id IN (SELECT value FROM json_each(?)) AND state >= 4 AND key IS NOT NULL)

-- name: link_advance
UPDATE [links] SET number = ?3 WHERE worker = ?1 AND link = ?2 AND number < ?3

-- name: link_standing
SELECT (SELECT number FROM [links] WHERE worker = ? AND link = ?),
    (SELECT CASE WHEN dead IS NOT NULL THEN 'dead' WHEN beat_at + lease < ? THEN 'lapsed' ELSE 'alive' END
     FROM [workers] WHERE id = ?),
    (SELECT min(due) FROM [jobs] WHERE state = 1)

-- name: mark_running
UPDATE [jobs] SET state = 3, worker = ?, link = ?, ticket = ?, attempt = attempt + 1, started = ?
WHERE seq IN (SELECT value FROM json_each(?))

-- name: held
SELECT json_group_array(json_array(seq, ticket, id, task, queue, kind, suspect, key IS NOT NULL,
    attempt, failures, losses, releases, args, headers))
FROM (SELECT * FROM [jobs] WHERE state = 3 AND worker = ?1 AND link = ?2 AND (?3 IS NULL OR ticket = ?3) ORDER BY seq)

-- name: settle_empty
UPDATE [jobs] SET state = 4, ticket = ?, finished = ?, prune_at = ?, result = NULL, error = NULL
WHERE seq IN (SELECT value FROM json_each(?)) AND state = 3 AND ticket = ? AND worker = ? AND link = ?

-- name: settle_success
UPDATE [jobs] SET state = 4, ticket = ?, finished = ?, prune_at = s.column3, result = s.column4, error = NULL
FROM (VALUES (?, ?, ?, ?) /* rows */) s
WHERE [jobs].seq = s.column1 AND state = 3 AND ticket = s.column2 AND worker = ? AND link = ?

-- columns: seq, worker, link, ticket, state, due, failures, losses, releases, suspect, result, error, prune_at
-- name: settle
UPDATE [jobs] SET
    state = CASE WHEN cancel IS NOT NULL AND s.column5 < 3 THEN 6 ELSE s.column5 END,
    ticket = ?,
    finished = CASE WHEN s.column5 >= 4 OR cancel IS NOT NULL THEN ? END,
    prune_at = CASE WHEN s.column5 >= 4 THEN s.column13
        WHEN cancel IS NOT NULL THEN coalesce(s.column13, CASE WHEN cancel >= 0 THEN ? + cancel END) END,
    due = coalesce(s.column6, due),
    failures = failures + s.column7,
    losses = losses + s.column8,
    releases = releases + s.column9,
    suspect = s.column10,
    result = s.column11,
    error = CASE WHEN s.column5 >= 4 THEN s.column12 ELSE coalesce(s.column12, error) END
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) /* rows */) s
WHERE [jobs].seq = s.column1 AND state = 3 AND worker = s.column2 AND link = s.column3 AND ticket = s.column4

-- columns: seq, worker, link, ticket, outcome, error
-- name: attempts_add
INSERT OR REPLACE INTO [attempts] (seq, number, worker, started, ended, outcome, error)
SELECT j.seq, j.attempt, j.worker, j.started, ?, s.column5, s.column6
FROM (VALUES (?, ?, ?, ?, ?, ?) /* rows */) s JOIN [jobs] j ON j.seq = s.column1
WHERE j.state = 3 AND j.worker = s.column2 AND j.link = s.column3 AND j.ticket = s.column4

-- name: attempts_trim
DELETE FROM [attempts] WHERE seq IN (SELECT value FROM json_each(?))
AND number <= (SELECT attempt FROM [jobs] j WHERE j.seq = [attempts].seq) - ?

-- name: settled_by
SELECT json_group_array(seq) FROM [jobs]
WHERE seq IN (SELECT value FROM json_each(?)) AND worker = ? AND link = ? AND ticket = ?

-- name: worker_join
INSERT INTO [workers] (id, host, boot, pid, beat_at, streak_from, lease, tasks, queues)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8)
ON CONFLICT (id) DO UPDATE SET beat_at = ?5, streak_from = ?5 WHERE dead IS NULL

-- name: links_join
INSERT OR IGNORE INTO [links] (worker, link, number)
SELECT ?1, value, 0 FROM json_each(?2) WHERE EXISTS (SELECT 1 FROM [workers] WHERE id = ?1 AND dead IS NULL)

-- name: worker_leave
DELETE FROM [workers] WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM [jobs] WHERE state = 3 AND worker = ?1)

-- name: worker_runs
SELECT EXISTS (SELECT 1 FROM [jobs] WHERE state = 3 AND worker = ?)

-- name: links_drop
DELETE FROM [links] WHERE worker = ?

-- A gap of more than 0.4 leases starts the streak again.
-- name: beat
UPDATE [workers] SET beat_at = ?2,
    streak_from = CASE WHEN (?2 - beat_at) * 5 > lease * 2 OR ?2 < beat_at THEN ?2 ELSE streak_from END,
    leaving = leaving OR ?3, report = ?4
WHERE id = ?1 AND dead IS NULL

-- A worker of another boot id counts as lapsed: its readings are of a clock that is gone.
-- name: orders
SELECT
    (SELECT json_group_array(seq) FROM [jobs] WHERE state = 3 AND worker = ?1 AND cancel IS NOT NULL),
    (SELECT json_group_array(w.id) FROM [workers] w WHERE w.dead IS NULL AND w.id <> me.id
        AND (w.boot <> me.boot OR w.beat_at + w.lease < ?2) AND ?2 - me.streak_from >= me.lease),
    (WITH RECURSIVE running(worker) AS (
            SELECT (SELECT min(worker) FROM [jobs] WHERE state = 3)
            UNION ALL
            SELECT (SELECT min(j.worker) FROM [jobs] j WHERE j.state = 3 AND j.worker > running.worker)
            FROM running WHERE running.worker IS NOT NULL)
        SELECT EXISTS (SELECT 1 FROM running WHERE worker IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM [workers] w WHERE w.id = running.worker AND w.dead IS NULL))),
    EXISTS (SELECT 1 FROM [jobs] WHERE state = 2 AND hold IS NULL),
    (SELECT min(due) FROM [jobs] WHERE state = 1),
    EXISTS (SELECT 1 FROM [jobs] WHERE state >= 4 AND prune_at IS NOT NULL AND prune_at <= ?3)
        OR EXISTS (SELECT 1 FROM [workers] w WHERE w.dead <= ?4
            AND NOT EXISTS (SELECT 1 FROM [jobs] j WHERE j.state = 3 AND j.worker = w.id)),
    (SELECT count(*) FROM [tasks])
FROM [workers] me WHERE me.id = ?1

-- name: condemn
UPDATE [workers] SET dead = ?2 WHERE id = ?1 AND dead IS NULL

-- name: condemn_lapsed
UPDATE [workers] SET dead = ?2 WHERE id = ?1 AND dead IS NULL AND EXISTS (
    SELECT 1 FROM [workers] me WHERE me.id = ?3 AND me.id <> [workers].id AND me.dead IS NULL
    AND me.beat_at + me.lease >= ?4 AND ?4 - me.streak_from >= me.lease
    AND ([workers].boot <> me.boot OR [workers].beat_at + [workers].lease < ?4))

-- name: worker_dead
SELECT dead IS NOT NULL FROM [workers] WHERE id = ?

-- name: orphans
SELECT json_group_array(json_object('seq', seq, 'worker', worker, 'link', link, 'ticket', ticket, 'task', task,
    'keyed', keyed, 'failures', failures, 'losses', losses, 'releases', releases, 'leaving', leaving, 'cancel', wish))
FROM (
    SELECT j.*, j.key IS NOT NULL AS keyed, j.cancel IS NOT NULL AS wish, coalesce(w.leaving, 0) AS leaving
    FROM [jobs] j INDEXED BY [jobs_running] LEFT JOIN [workers] w ON w.id = j.worker
    WHERE j.state = 3 AND (w.id IS NULL OR w.dead IS NOT NULL) ORDER BY j.seq LIMIT ?)

-- name: workers
SELECT json_group_array(json_object('id', id, 'host', host, 'pid', pid, 'leaving', leaving, 'dead', dead IS NOT NULL,
    'lapsed', boot <> ?1 OR beat_at + lease < ?2, 'beat_age_us', max(0, ?2 - beat_at),
    'tasks', json(tasks), 'queues', json(queues), 'report', report))
FROM (SELECT * FROM [workers] ORDER BY id)

-- name: due_exists
SELECT EXISTS (SELECT 1 FROM [jobs] WHERE state = 1 AND due <= ?)

-- name: promote
UPDATE [jobs] SET state = 2
WHERE seq IN (SELECT seq FROM [jobs] WHERE state = 1 AND due <= ? ORDER BY due, seq LIMIT ?)

-- name: prunable
SELECT EXISTS (SELECT 1 FROM [jobs] WHERE state >= 4 AND prune_at IS NOT NULL AND prune_at <= ?1)
    OR EXISTS (SELECT 1 FROM [workers] w WHERE w.dead <= ?2
        AND NOT EXISTS (SELECT 1 FROM [jobs] j WHERE j.state = 3 AND j.worker = w.id))

-- name: prune_seqs
SELECT json_group_array(seq) FROM (
    SELECT seq FROM [jobs] WHERE state >= 4 AND prune_at IS NOT NULL AND prune_at <= ? ORDER BY prune_at LIMIT ?)

-- name: attempts_drop
DELETE FROM [attempts] WHERE seq IN (SELECT value FROM json_each(?))

-- name: jobs_drop
DELETE FROM [jobs] WHERE seq IN (SELECT value FROM json_each(?))

-- name: workers_forget
DELETE FROM [workers] WHERE dead <= ?
AND NOT EXISTS (SELECT 1 FROM [jobs] j WHERE j.state = 3 AND j.worker = [workers].id)

-- name: tasks
SELECT json_group_array(name) FROM (SELECT name FROM [tasks] ORDER BY name)

-- name: tasks_add
INSERT OR IGNORE INTO [tasks] (name) SELECT value FROM json_each(?)

-- name: jobs_get
SELECT seq, id, task, queue, kind, state, prio, key, args, headers, result, error, cancel IS NOT NULL, attempt, failures,
    losses, releases, CASE WHEN state >= 3 THEN worker END, created, due, started, finished
FROM [jobs] WHERE id IN (SELECT value FROM json_each(?))

-- name: attempts_get
SELECT seq, number, worker, started, ended, outcome, error FROM [attempts]
WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq, number

-- name: states
SELECT json_group_object(id, state) FROM [jobs] WHERE id IN (SELECT value FROM json_each(?))

-- name: cancel_pending
UPDATE [jobs] SET state = 6, finished = ?, prune_at = ? WHERE id IN (SELECT value FROM json_each(?)) AND state < 3

-- name: cancel_wish
UPDATE [jobs] SET cancel = ? WHERE id IN (SELECT value FROM json_each(?)) AND state = 3 AND cancel IS NULL

-- name: cancellable
SELECT EXISTS (SELECT 1 FROM [jobs] WHERE id IN (SELECT value FROM json_each(?))
    AND (state < 3 OR state = 3 AND cancel IS NULL))

-- name: ready_queues
WITH RECURSIVE q(queue) AS (
    SELECT (SELECT min(queue) FROM [jobs] WHERE state = 2 AND hold IS NULL)
    UNION ALL
    SELECT (SELECT min(j.queue) FROM [jobs] j WHERE j.state = 2 AND j.hold IS NULL AND j.queue > q.queue)
    FROM q WHERE q.queue IS NOT NULL)
SELECT queue FROM q WHERE queue IS NOT NULL

-- name: depth_ready
SELECT queue, task, count(*), min(created) FROM (
    SELECT queue, task, created FROM [jobs] WHERE state = 2 AND hold IS NULL AND queue = ? LIMIT ?) GROUP BY task

-- name: depth_scheduled
SELECT queue, task, count(*) FROM (SELECT queue, task FROM [jobs] WHERE state = 1 ORDER BY due LIMIT ?)
GROUP BY queue, task

-- name: depth_running
SELECT queue, task, count(*) FROM (SELECT queue, task FROM [jobs] WHERE state = 3 LIMIT ?) GROUP BY queue, task
