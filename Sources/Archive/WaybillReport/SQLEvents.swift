/// The table that every query reads.
enum SQLEvents {
    /// `hive_partitioning` is off: it would put the folders' names in the place of members that lines have themselves.
    static let table = #"""
        -- The files of lines. One that is being sealed is there twice for a moment: then the one without .gz is left out.
        SET VARIABLE folders = getvariable('archive') || '/env=' || getvariable('env') || '/bundle=';
        SET VARIABLE files = (WITH listed AS (SELECT file FROM glob(getvariable('folders') || getvariable('bundle') || '/date=*/*')
            UNION SELECT file FROM glob(getvariable('folders') || '_overflow/date=*/*'))
          SELECT list(file ORDER BY file) FROM listed
          WHERE regexp_matches(file, '/(part|late)-[0-9]+\.ndjson(\.gz)?$') AND file || '.gz' NOT IN (SELECT file FROM listed));
        -- e: every event that is kept, once, with its day, its person and its place in the order of events.
        CREATE OR REPLACE TEMP TABLE e AS
        WITH lines AS (
          SELECT * EXCLUDE (app, kind, name), app AS version,
            coalesce(name, 'log') AS name,
            CASE WHEN kind IN ('screen', 'action', 'user', 'meta') THEN kind ELSE 'event' END AS kind,
            contains(filename, '/late-') AS late,
            regexp_extract(filename, '^(.*)/', 1) AS folder, regexp_replace(filename, '\.gz$', '') AS part
          FROM read_ndjson(getvariable('files'), filename = true, hive_partitioning = false, ignore_errors = true,
            columns = {id: 'VARCHAR', writer: 'VARCHAR', seq: 'BIGINT', ts: 'TIMESTAMP', kind: 'VARCHAR', name: 'VARCHAR',
                       screen: 'VARCHAR', screen_class: 'VARCHAR', prev: 'VARCHAR', prev_ms: 'BIGINT', session: 'VARCHAR',
                       "user": 'VARCHAR', anon: 'VARCHAR', app: 'VARCHAR', build: 'VARCHAR', os: 'VARCHAR',
                       os_version: 'VARCHAR', model: 'VARCHAR', lang: 'VARCHAR', country: 'VARCHAR', tz: 'VARCHAR',
                       log: 'VARCHAR', sample_rate: 'VARCHAR', traits: 'JSON', data: 'JSON', bundle: 'VARCHAR'})
          -- The folder _overflow has lines of several apps.
          WHERE ts IS NOT NULL AND (bundle = getvariable('app') OR NOT contains(filename, '/bundle=_overflow/'))),
        -- An id counts once in a day's folder: in the first file that has it, and there at its earliest time.
        once AS (
          SELECT * FROM lines WHERE NOT (late AND getvariable('strict'))
          QUALIFY id IS NULL OR row_number() OVER (PARTITION BY folder, id
            ORDER BY late, part, ts, writer, seq, kind, name, screen) = 1),
        numbered AS (SELECT *, row_number() OVER (ORDER BY ts, writer, seq, id, name, screen) AS n FROM once)
        SELECT * EXCLUDE (folder, part),
          CAST(timezone(getvariable('zone'), timezone('UTC', ts)) AS DATE) AS day,
          -- A session belongs to the day of its start, which is in its UUIDv7.
          CAST(timezone(getvariable('zone'), CASE
            WHEN regexp_matches(session, '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$')
              THEN to_timestamp(('0x' || replace(session[:13], '-', ''))::BIGINT / 1000.0)
            WHEN session IS NOT NULL THEN timezone('UTC', min(ts) FILTER (kind <> 'meta') OVER (PARTITION BY session)) END) AS DATE) AS session_day,
          -- A person is a user. Without one, what a device does is its next user's, or else its last one's.
          CASE WHEN "user" IS NOT NULL THEN 'u:' || "user"
            WHEN anon IS NOT NULL THEN coalesce(
              'u:' || first_value("user" IGNORE NULLS) OVER (PARTITION BY anon ORDER BY n
                ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING),
              'u:' || last_value("user" IGNORE NULLS) OVER (PARTITION BY anon ORDER BY n
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW),
              'a:' || anon) END AS person
        FROM numbered;

        """#
}
