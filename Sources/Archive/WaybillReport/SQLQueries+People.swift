/// The queries about what people do over time.
extension SQLQueries {
    /// Each step's earliest event after the step before, within the window of the first; for every first step.
    ///
    /// - Parameters:
    ///   - steps: a condition for each.
    ///   - isStrict: whether no other step may come in between.
    static func funnel(_ steps: [String], milliseconds: Int64, isStrict: Bool) -> String {
        let flags = steps.enumerated().map { index, condition in "coalesce(\(condition), false) AS s\(index + 1)" }
        let any = steps.indices.map { "s\($0 + 1)" }.joined(separator: " OR ")
        var text = """
            -- A person's best attempt: a first step from which the others follow in order within the window. Steps at the
            -- same millisecond count as ordered.
            WITH f AS (SELECT person, n, ts,
                \(flags.joined(separator: ",\n    "))
              FROM active),
            h AS (SELECT *, row_number() OVER (PARTITION BY person ORDER BY n) AS m FROM f WHERE \(any)),
            a1 AS (SELECT person, m AS m1, ts AS t1 FROM h WHERE s1)
            """
        for step in 1..<steps.count {
            let order = isStrict ? "h.m = m\(step) + 1" : "h.m > m\(step)"
            text += """
                ,
                a\(step + 1) AS (SELECT a\(step).*, min(h.m) AS m\(step + 1) FROM a\(step) LEFT JOIN h
                  ON h.person = a\(step).person AND h.s\(step + 1) AND \(order)
                  AND h.ts <= t1 + to_milliseconds(\(milliseconds)) GROUP BY ALL)
                """
        }
        let levels = (1...steps.count).map { "(m\($0) IS NOT NULL)::INT" }.joined(separator: " + ")
        return text + """
            ,
            best AS (SELECT person, max(\(levels)) AS level FROM a\(steps.count) GROUP BY person),
            p AS (SELECT step, count(*) FILTER (level >= step) AS people FROM range(1, \(steps.count + 1)) t(step)
              LEFT JOIN best ON true GROUP BY step)
            SELECT step, people, people / nullif(first_value(people) OVER (ORDER BY step), 0) AS share,
              people / nullif(coalesce(lag(people) OVER (ORDER BY step), people), 0) AS "of previous" FROM p ORDER BY step;

            """
    }

    /// - Parameters:
    ///   - days: how many days after the first one.
    ///   - isRolling: whether a day is 24 hours from the person's first event.
    ///   - isUnbounded: whether those count who were active at that time or later.
    static func retention(_ days: ClosedRange<Int>, isRolling: Bool, isUnbounded: Bool) -> String {
        let number = isRolling ? "date_diff('millisecond', born_at, ts) // 86400000" : "day - born"
        return """
            -- Cohorts by first day in all that is kept: how many of a cohort are active on a later day\
            \(isUnbounded ? " or after it" : ""). NULL: that day is after the range.
            WITH s AS (SELECT DISTINCT person, born, \(number) AS d FROM active
              WHERE born BETWEEN getvariable('from_day') AND getvariable('to_day')),
            g AS (SELECT born, people, d::INT AS d FROM (SELECT born, count(*) AS people FROM born
                WHERE born BETWEEN getvariable('from_day') AND getvariable('to_day') GROUP BY born),
              range(\(days.lowerBound), \(days.upperBound + 1)) t(d)
              WHERE d <= getvariable('to_day') - getvariable('from_day')),
            c AS (SELECT g.born AS cohort, g.people, g.d AS number, count(DISTINCT s.person) AS active
              FROM g LEFT JOIN s ON s.born = g.born AND s.d \(isUnbounded ? ">=" : "=") g.d GROUP BY 1, 2, 3)
            SELECT cohort, people, number, CASE WHEN cohort + number\(isRolling ? " + 1" : "")
                <= least(getvariable('to_day'), CAST(timezone(getvariable('zone'), now()) AS DATE) - 1) THEN active END AS active
            FROM c ORDER BY cohort, number;

            """
    }

    /// - Parameter rules: for each its text, a condition, and how many events in a month must meet it.
    static func months(_ rules: [(text: String, condition: String, countMin: Int)]) -> String {
        var hits = ""
        var columns = ""
        for (index, rule) in rules.enumerated() {
            hits += ",\n    count(*) FILTER (\(rule.condition)) AS hits_\(index + 1)"
            columns +=
                "\n  count(*) FILTER (hits_\(index + 1) >= \(rule.countMin)) AS \(SQLReports.identifier(rule.text)),"
        }
        return """
            -- People per calendar month of the range, over all of its days that are kept, and those who meet the rules.
            WITH m AS (SELECT date_trunc('month', day) AS month, person, count(DISTINCT day) AS days\(hits)
              FROM k WHERE person IS NOT NULL AND kind <> 'meta' GROUP BY 1, 2),
            d AS (SELECT date_trunc('month', day) AS month, count(DISTINCT day) AS days FROM k
              WHERE person IS NOT NULL AND kind <> 'meta' GROUP BY 1)
            SELECT strftime(month, '%Y-%m') AS month, count(*) AS people,\(columns)
              sum(m.days) / any_value(d.days) AS "a day", sum(m.days) / any_value(d.days) / count(*) AS stickiness
            FROM m JOIN d USING (month) WHERE month BETWEEN date_trunc('month', getvariable('from_day'))
              AND date_trunc('month', getvariable('to_day')) GROUP BY month ORDER BY month;

            """
    }

    static let weeks = """
        -- People per week from Monday to Sunday, over all of its days that are kept.
        SELECT date_trunc('week', day)::DATE AS "week of", count(DISTINCT person) AS people FROM k
        WHERE person IS NOT NULL AND kind <> 'meta' AND date_trunc('week', day) BETWEEN
          date_trunc('week', getvariable('from_day')) AND date_trunc('week', getvariable('to_day')) GROUP BY 1 ORDER BY 1;

        """

    /// People of the last days up to each day.
    static func rolling(_ count: Int) -> String {
        """
        -- People on each day, in the 7 days up to it, and in the \(count) days up to it, itself included.
        WITH days AS (SELECT unnest(generate_series(getvariable('from_day'), getvariable('to_day'), INTERVAL 1 DAY))::DATE AS day),
        p AS (SELECT DISTINCT person, day AS active_day FROM k WHERE person IS NOT NULL AND kind <> 'meta')
        SELECT day, count(DISTINCT person) FILTER (active_day = day) AS people,
          count(DISTINCT person) FILTER (active_day > day - 7) AS "7 days",
          count(DISTINCT person) FILTER (active_day > day - \(count)) AS "\(count) days",
          count(DISTINCT person) FILTER (active_day = day)
            / count(DISTINCT person) FILTER (active_day > day - \(count)) AS stickiness
        FROM days JOIN p ON active_day <= day AND active_day > day - \(max(7, count))
        GROUP BY day HAVING "\(count) days" > 0 ORDER BY day;

        """
    }
}
