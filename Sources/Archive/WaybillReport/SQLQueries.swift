/// The queries; columns are called as in the command's answers.
enum SQLQueries {
    static let overview = """
        -- Per day: events, people, people seen for the first time, sessions that began, views of screens, late lines.
        WITH c AS (SELECT day, count(*) FILTER (kind <> 'meta') AS events,
            count(DISTINCT person) FILTER (kind <> 'meta') AS people,
            count(DISTINCT person) FILTER (kind <> 'meta' AND born = day) AS new,
            count(*) FILTER (kind = 'screen') AS views, count(*) FILTER (late) AS late
          FROM r GROUP BY day),
        s AS (SELECT session_day AS day, count(DISTINCT session) AS sessions FROM k WHERE kind <> 'meta' GROUP BY session_day)
        SELECT day, events, people, new, coalesce(sessions, 0) AS sessions, views, late
        FROM c LEFT JOIN s USING (day) ORDER BY day;

        """

    static let screens = """
        -- Views and people of each screen. The time on it is that of the views that were measured, in seconds.
        WITH v AS (SELECT screen, count(*) AS views, count(DISTINCT person) AS people FROM r WHERE kind = 'screen' GROUP BY screen),
        t AS (SELECT prev AS screen, prev_ms AS ms FROM r WHERE kind = 'screen' AND prev IS NOT NULL AND prev_ms >= 0
          UNION ALL
          SELECT screen, TRY_CAST(data->>'/duration_ms' AS BIGINT) AS ms FROM r
          WHERE kind = 'event' AND name = 'screen_end' AND screen IS NOT NULL AND ms >= 0),
        d AS (SELECT screen, count(*) AS measured, sum(ms) / 1000 AS total, avg(ms) / 1000 AS mean,
            median(ms) / 1000 AS median FROM t GROUP BY screen)
        SELECT screen, views, people, coalesce(measured, 0) AS measured, total, mean, median
        FROM v LEFT JOIN d USING (screen) ORDER BY views DESC, screen;

        """

    static func next(_ screen: String, isPrevious: Bool) -> String {
        let name = isPrevious ? "previous" : "next"
        return """
            -- The screen that \(isPrevious ? "comes before" : "follows") a screen in its session.
            WITH s AS (SELECT screen, \(isPrevious ? "lag" : "lead")(screen) OVER (PARTITION BY session ORDER BY n) AS other
              FROM r WHERE kind = 'screen' AND session IS NOT NULL)
            SELECT coalesce(other, '\(isPrevious ? "(start)" : "(end)")') AS \(name), count(*) AS times,
              count(*) / sum(count(*)) OVER () AS share
            FROM s WHERE screen = \(SQLReports.literal(screen)) GROUP BY \(name) ORDER BY times DESC, \(name);

            """
    }

    static func paths(_ event: String) -> String {
        """
        -- The last three screens in front of an event, in its session.
        WITH v AS (SELECT n, session, concat_ws(' > ', lag(screen, 2) OVER w, lag(screen) OVER w, screen) AS path
          FROM active WHERE kind = 'screen' AND session IS NOT NULL WINDOW w AS (PARTITION BY session ORDER BY n))
        SELECT coalesce(nullif(path, ''), '(none)') AS path, count(*) AS times, count(DISTINCT person) AS people
        FROM (SELECT * FROM active WHERE \(event)) a ASOF LEFT JOIN v ON a.session = v.session AND a.n >= v.n
        GROUP BY 1 ORDER BY times DESC, path;

        """
    }

    /// - Parameter event: a condition; `nil` for every event.
    static func breakdown(_ event: String?, by value: String, named name: String) -> String {
        let column = SQLReports.identifier(name)
        return """
            -- Events by a value: events, people, and the share of the events.
            SELECT \(value) AS \(column), count(*) AS events, count(DISTINCT person) AS people,
              count(*) / sum(count(*)) OVER () AS share
            FROM r WHERE kind <> 'meta'\(event.map { " AND \($0)" } ?? "") GROUP BY 1 ORDER BY events DESC, 1;

            """
    }

    static let newReturning = """
        -- Per day: people whose first day in all that is kept it is, and the others.
        SELECT day, count(DISTINCT person) FILTER (born = day) AS new,
          count(DISTINCT person) FILTER (born < day) AS returning
        FROM active GROUP BY day ORDER BY day;

        """

    static let versions = """
        -- Per day, each person under the version in the last of their events of that day that has one.
        WITH l AS (SELECT day, person, arg_max(version, n) AS version FROM active GROUP BY day, person)
        SELECT day, version, count(*) AS people, count(*) / sum(count(*)) OVER (PARTITION BY day) AS share
        FROM l GROUP BY day, version ORDER BY day, version;

        """

    static let systems = """
        -- Each person under the first part of os_version in the last of their events that has one.
        WITH l AS (SELECT person, arg_max(split_part(os_version, '.', 1), n) FILTER (os_version IS NOT NULL) AS os
          FROM active GROUP BY person)
        SELECT os, count(*) AS people, count(*) / sum(count(*)) OVER () AS share FROM l GROUP BY os ORDER BY os;

        """

    static let gaps = """
        -- Numbers between a writer's lowest and highest that are not kept.
        WITH w AS (SELECT writer, min(seq) AS first, max(seq) AS last, count(DISTINCT seq) AS present FROM k
          WHERE writer IS NOT NULL AND seq >= 0 GROUP BY writer)
        SELECT writer, last - first - (present - 1) AS missing, first, last FROM w WHERE missing > 0 ORDER BY writer;

        """

    static let sessions = """
        -- Per day of their start: sessions, median length in seconds, views per session, and sessions of at most one view
        -- that took less than 10 seconds.
        WITH s AS (SELECT session, any_value(session_day) AS day, count(*) FILTER (kind = 'screen') AS shown,
            date_diff('millisecond', min(ts), max(ts)) / 1000 AS seconds
          FROM k WHERE session IS NOT NULL AND kind <> 'meta' GROUP BY session)
        SELECT day, count(*) AS sessions, median(seconds) AS median, avg(shown) AS views,
          count(*) FILTER (shown <= 1 AND seconds < 10) AS bounced
        FROM s WHERE day BETWEEN getvariable('from_day') AND getvariable('to_day') GROUP BY day ORDER BY day;

        """

    static let names = """
        -- Every name in all that is kept, and for each field of data how often it has which type.
        WITH f AS (SELECT name, kind, person, ts, version, data, unnest(json_keys(data)) AS property FROM e WHERE kind <> 'meta'),
        t AS (SELECT *, CASE json_type(data, '/' || replace(replace(property, '~', '~0'), '/', '~1'))
            WHEN 'VARCHAR' THEN 'string' WHEN 'BIGINT' THEN 'integer' WHEN 'UBIGINT' THEN 'integer'
            WHEN 'HUGEINT' THEN 'integer' WHEN 'UHUGEINT' THEN 'integer' WHEN 'DOUBLE' THEN 'number'
            WHEN 'BOOLEAN' THEN 'boolean' WHEN 'ARRAY' THEN 'array' WHEN 'OBJECT' THEN 'object' END AS type FROM f),
        c AS (SELECT name, kind, property, type, count(*) AS number, min(ts) AS first, max(ts) AS last,
            list_position(['string', 'integer', 'number', 'boolean', 'array', 'object'], type) AS place
          FROM t WHERE type IS NOT NULL GROUP BY ALL),
        p AS (SELECT name, kind, property, sum(number)::BIGINT AS events, NULL::BIGINT AS people, min(first) AS first,
            max(last) AS last, string_agg(type || ' ' || number, ', ' ORDER BY place) AS types,
            CASE WHEN count(DISTINCT replace(type, 'integer', 'number')) > 1 THEN 'yes' ELSE '' END AS conflict
          FROM c GROUP BY name, kind, property),
        a AS (SELECT name, kind, NULL::VARCHAR AS property, count(*) AS events, count(DISTINCT person) AS people,
            min(ts) AS first, max(ts) AS last, '' AS types, '' AS conflict FROM e WHERE kind <> 'meta' GROUP BY name, kind)
        SELECT name, kind, property, events, people, strftime(first, '%Y-%m-%dT%H:%M:%S.%gZ') AS first,
          strftime(last, '%Y-%m-%dT%H:%M:%S.%gZ') AS last, types, conflict
        FROM (SELECT * FROM a UNION ALL SELECT * FROM p) ORDER BY name, kind, property NULLS FIRST;

        """
}
