-- The SQLite schema, version 1. Names in [brackets] get the namespace in front; times are microseconds.
-- State codes: 0 waiting, 1 scheduled, 2 queued, 3 running, 4 succeeded, 5 failed, 6 cancelled.
-- Migrations only add: reserved columns (hold, expires, until) are here since they shape rows and indexes.

CREATE TABLE [meta] (k TEXT PRIMARY KEY, v TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE [tasks] (name TEXT PRIMARY KEY) WITHOUT ROWID;

-- At most one unfinished job holds a key. A table of its own, so that no update of a job can fail on it.
CREATE TABLE [keys] (key TEXT PRIMARY KEY, seq INTEGER NOT NULL, until INTEGER) WITHOUT ROWID;

CREATE TABLE [workers] (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,            -- beat_at and streak_from count on the monotonic clock of this boot
    pid INTEGER NOT NULL,
    beat_at INTEGER NOT NULL,
    streak_from INTEGER NOT NULL,  -- since when the beats are unbroken
    lease INTEGER NOT NULL,
    leaving INTEGER NOT NULL DEFAULT 0,
    dead INTEGER,                  -- wall time of the condemnation
    tasks TEXT NOT NULL,
    queues TEXT NOT NULL,
    report TEXT NOT NULL DEFAULT '{}'
) WITHOUT ROWID;

CREATE TABLE [links] (
    worker TEXT NOT NULL,
    link INTEGER NOT NULL,
    number INTEGER NOT NULL,       -- of the last exchange that wrote
    PRIMARY KEY (worker, link)
) WITHOUT ROWID;

CREATE TABLE [jobs] (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    kind TEXT NOT NULL,
    suspect INTEGER NOT NULL DEFAULT 0,
    prio INTEGER NOT NULL,
    state INTEGER NOT NULL,
    hold TEXT,                     -- why a queued job is not ready; null: it is
    due INTEGER,
    expires INTEGER,
    key TEXT,
    cancel INTEGER,                -- a wish to cancel: for how long to keep the job then, -1 for ever; null: none
    worker TEXT,                   -- who runs it, or ran it last
    link INTEGER,
    ticket INTEGER,                -- running: the number that claimed it; settled: the negated number that did that
    attempt INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    losses INTEGER NOT NULL DEFAULT 0,
    releases INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    started INTEGER,
    finished INTEGER,
    prune_at INTEGER,              -- null: keep for ever
    headers TEXT,
    args TEXT NOT NULL,
    result TEXT,
    error TEXT
);

CREATE INDEX [jobs_ready] ON [jobs] (queue, kind, suspect, prio DESC, seq) WHERE state = 2 AND hold IS NULL;
CREATE INDEX [jobs_due] ON [jobs] (due) WHERE state = 1;
CREATE INDEX [jobs_running] ON [jobs] (worker, cancel) WHERE state = 3;
CREATE INDEX [jobs_prune] ON [jobs] (prune_at) WHERE state >= 4 AND prune_at IS NOT NULL;

-- How attempts ended that did not succeed; the last few of a job.
CREATE TABLE [attempts] (
    seq INTEGER NOT NULL,
    number INTEGER NOT NULL,
    worker TEXT NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    error TEXT,
    PRIMARY KEY (seq, number)
) WITHOUT ROWID;
