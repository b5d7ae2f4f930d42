{{#comment}}
What `waybill report sql` prints; `SQLReports` fills in the variables, which are called as the command's options. Columns are
called as in the command's answers. `hive_partitioning` is off: it would put the folders' names in the place of members that
lines have themselves.
{{/comment}}
-- Waybill's reports for DuckDB 1.5 or later, with the definitions of `waybill report`. Change the variables, and
-- run it: duckdb < insights.sql
SET TimeZone = 'UTC';
SET VARIABLE archive = {{archive}};
SET VARIABLE env = {{env}};
-- The app, and its name in folders.
SET VARIABLE app = {{app}};
SET VARIABLE bundle = {{bundle}};
SET VARIABLE zone = {{zone}};
-- The first and the last day; NULL: all that are kept.
SET VARIABLE from_day = CAST({{from}} AS DATE);
SET VARIABLE to_day = CAST({{to}} AS DATE);
-- true: without lines that came after their day's cut-off. Use it with the archive's own zone.
SET VARIABLE strict = {{strict_cut_off}};
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
SET VARIABLE from_day = coalesce(getvariable('from_day'), (SELECT min(day) FROM e));
SET VARIABLE to_day = coalesce(getvariable('to_day'), (SELECT max(day) FROM e));
-- born: the first day of each person in all that is kept.
CREATE OR REPLACE TEMP VIEW born AS SELECT person, min(day) AS born, min(ts) AS born_at FROM e
  WHERE person IS NOT NULL AND kind <> 'meta' GROUP BY person;
-- k: the events that count; r: those of the range; active: those of people, without notices.
CREATE OR REPLACE TEMP VIEW k AS SELECT * FROM (
  SELECT e.*, born, born_at{{#traits}},
    CASE WHEN person IS NOT NULL THEN last_value(CASE WHEN kind = 'user' THEN traits->>{{key}} END IGNORE NULLS) OVER (
      PARTITION BY person ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) END AS trait_{{index}}{{/traits}} FROM e LEFT JOIN born USING (person))
  WHERE {{^conditions}}true{{/conditions}}{{#conditions}}{{#former}} AND {{/former}}({{condition}}){{/conditions}};
CREATE OR REPLACE TEMP VIEW r AS SELECT * FROM k WHERE day BETWEEN getvariable('from_day') AND getvariable('to_day');
CREATE OR REPLACE TEMP VIEW active AS SELECT * FROM r WHERE person IS NOT NULL AND kind <> 'meta';
{{#reports}}{{#overview}}
-- report: overview
-- Per day: events, people, people seen for the first time, sessions that began, views of screens, late lines.
WITH c AS (SELECT day, count(*) FILTER (kind <> 'meta') AS events,
    count(DISTINCT person) FILTER (kind <> 'meta') AS people,
    count(DISTINCT person) FILTER (kind <> 'meta' AND born = day) AS new,
    count(*) FILTER (kind = 'screen') AS views, count(*) FILTER (late) AS late
  FROM r GROUP BY day),
s AS (SELECT session_day AS day, count(DISTINCT session) AS sessions FROM k WHERE kind <> 'meta' GROUP BY session_day)
SELECT day, events, people, new, coalesce(sessions, 0) AS sessions, views, late
FROM c LEFT JOIN s USING (day) ORDER BY day;
{{/overview}}{{#screens}}
-- report: screens
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
{{/screens}}{{#next}}
-- report: next
{{^screen}}
-- Give --screen for it.
{{/screen}}{{#screen}}{{#previous}}
-- The screen that comes before a screen in its session.
WITH s AS (SELECT screen, lag(screen) OVER (PARTITION BY session ORDER BY n) AS other
  FROM r WHERE kind = 'screen' AND session IS NOT NULL)
SELECT coalesce(other, '(start)') AS previous, count(*) AS times,
  count(*) / sum(count(*)) OVER () AS share
FROM s WHERE screen = {{screen}} GROUP BY previous ORDER BY times DESC, previous;
{{/previous}}{{^previous}}
-- The screen that follows a screen in its session.
WITH s AS (SELECT screen, lead(screen) OVER (PARTITION BY session ORDER BY n) AS other
  FROM r WHERE kind = 'screen' AND session IS NOT NULL)
SELECT coalesce(other, '(end)') AS next, count(*) AS times,
  count(*) / sum(count(*)) OVER () AS share
FROM s WHERE screen = {{screen}} GROUP BY next ORDER BY times DESC, next;
{{/previous}}{{/screen}}{{/next}}{{#paths}}
-- report: paths
{{^before}}
-- Give --before for it.
{{/before}}{{#before}}
-- The last three screens in front of an event, in its session.
WITH v AS (SELECT n, session, concat_ws(' > ', lag(screen, 2) OVER w, lag(screen) OVER w, screen) AS path
  FROM active WHERE kind = 'screen' AND session IS NOT NULL WINDOW w AS (PARTITION BY session ORDER BY n))
SELECT coalesce(nullif(path, ''), '(none)') AS path, count(*) AS times, count(DISTINCT person) AS people
FROM (SELECT * FROM active WHERE {{before}}) a ASOF LEFT JOIN v ON a.session = v.session AND a.n >= v.n
GROUP BY 1 ORDER BY times DESC, path;
{{/before}}{{/paths}}{{#funnel}}
-- report: funnel
{{^step_count}}
-- Give --step, twice or more, for it.
{{/step_count}}{{#step_count}}
-- A person's best attempt: a first step from which the others follow in order within the window. Steps at the
-- same millisecond count as ordered.
WITH f AS (SELECT person, n, ts{{#steps}},
    coalesce({{condition}}, false) AS s{{number}}{{/steps}}
  FROM active),
h AS (SELECT *, row_number() OVER (PARTITION BY person ORDER BY n) AS m FROM f WHERE {{#steps}}{{#former}} OR {{/former}}s{{number}}{{/steps}}),
a1 AS (SELECT person, m AS m1, ts AS t1 FROM h WHERE s1){{#steps}}{{#former}},
a{{number}} AS (SELECT a{{former}}.*, min(h.m) AS m{{number}} FROM a{{former}} LEFT JOIN h
  ON h.person = a{{former}}.person AND h.s{{number}} AND h.m {{#strict}}= m{{former}} + 1{{/strict}}{{^strict}}> m{{former}}{{/strict}}
  AND h.ts <= t1 + to_milliseconds({{window}}) GROUP BY ALL){{/former}}{{/steps}},
best AS (SELECT person, max({{#steps}}{{#former}} + {{/former}}(m{{number}} IS NOT NULL)::INT{{/steps}}) AS level FROM a{{step_count}} GROUP BY person),
p AS (SELECT step, count(*) FILTER (level >= step) AS people FROM range(1, {{step_end}}) t(step)
  LEFT JOIN best ON true GROUP BY step)
SELECT step, people, people / nullif(first_value(people) OVER (ORDER BY step), 0) AS share,
  people / nullif(coalesce(lag(people) OVER (ORDER BY step), people), 0) AS "of previous" FROM p ORDER BY step;
{{/step_count}}{{/funnel}}{{#retention}}
-- report: retention{{#unbounded}}-unbounded{{/unbounded}}
-- Cohorts by first day in all that is kept: how many of a cohort are active on a later day{{#unbounded}} or after it{{/unbounded}}. NULL: that day is after the range.
WITH s AS (SELECT DISTINCT person, born, {{#rolling}}date_diff('millisecond', born_at, ts) // 86400000{{/rolling}}{{^rolling}}day - born{{/rolling}} AS d FROM active
  WHERE born BETWEEN getvariable('from_day') AND getvariable('to_day')),
g AS (SELECT born, people, d::INT AS d FROM (SELECT born, count(*) AS people FROM born
    WHERE born BETWEEN getvariable('from_day') AND getvariable('to_day') GROUP BY born),
  range({{days_first}}, {{days_end}}) t(d)
  WHERE d <= getvariable('to_day') - getvariable('from_day')),
c AS (SELECT g.born AS cohort, g.people, g.d AS number, count(DISTINCT s.person) AS active
  FROM g LEFT JOIN s ON s.born = g.born AND s.d {{#unbounded}}>{{/unbounded}}= g.d GROUP BY 1, 2, 3)
SELECT cohort, people, number, CASE WHEN cohort + number{{#rolling}} + 1{{/rolling}}
    <= least(getvariable('to_day'), CAST(timezone(getvariable('zone'), now()) AS DATE) - 1) THEN active END AS active
FROM c ORDER BY cohort, number;
{{/retention}}{{#active}}
-- report: active
{{#rolling}}
-- People on each day, in the 7 days up to it, and in the {{rolling}} days up to it, itself included.
WITH days AS (SELECT unnest(generate_series(getvariable('from_day'), getvariable('to_day'), INTERVAL 1 DAY))::DATE AS day),
p AS (SELECT DISTINCT person, day AS active_day FROM k WHERE person IS NOT NULL AND kind <> 'meta')
SELECT day, count(DISTINCT person) FILTER (active_day = day) AS people,
  count(DISTINCT person) FILTER (active_day > day - 7) AS "7 days",
  count(DISTINCT person) FILTER (active_day > day - {{rolling}}) AS "{{rolling}} days",
  count(DISTINCT person) FILTER (active_day = day)
    / count(DISTINCT person) FILTER (active_day > day - {{rolling}}) AS stickiness
FROM days JOIN p ON active_day <= day AND active_day > day - {{rolling_reach}}
GROUP BY day HAVING "{{rolling}} days" > 0 ORDER BY day;
{{/rolling}}{{^rolling}}
-- People per calendar month of the range, over all of its days that are kept, and those who meet the rules.
WITH m AS (SELECT date_trunc('month', day) AS month, person, count(DISTINCT day) AS days{{#rules}},
    count(*) FILTER ({{condition}}) AS hits_{{number}}{{/rules}}
  FROM k WHERE person IS NOT NULL AND kind <> 'meta' GROUP BY 1, 2),
d AS (SELECT date_trunc('month', day) AS month, count(DISTINCT day) AS days FROM k
  WHERE person IS NOT NULL AND kind <> 'meta' GROUP BY 1)
SELECT strftime(month, '%Y-%m') AS month, count(*) AS people,{{#rules}}
  count(*) FILTER (hits_{{number}} >= {{count}}) AS {{column}},{{/rules}}
  sum(m.days) / any_value(d.days) AS "a day", sum(m.days) / any_value(d.days) / count(*) AS stickiness
FROM m JOIN d USING (month) WHERE month BETWEEN date_trunc('month', getvariable('from_day'))
  AND date_trunc('month', getvariable('to_day')) GROUP BY month ORDER BY month;
-- report: active-weeks
-- People per week from Monday to Sunday, over all of its days that are kept.
SELECT date_trunc('week', day)::DATE AS "week of", count(DISTINCT person) AS people FROM k
WHERE person IS NOT NULL AND kind <> 'meta' AND date_trunc('week', day) BETWEEN
  date_trunc('week', getvariable('from_day')) AND date_trunc('week', getvariable('to_day')) GROUP BY 1 ORDER BY 1;
{{/rolling}}{{/active}}{{#breakdown}}
-- report: breakdown
-- Events by a value: events, people, and the share of the events.
SELECT {{by}} AS {{by_column}}, count(*) AS events, count(DISTINCT person) AS people,
  count(*) / sum(count(*)) OVER () AS share
FROM r WHERE kind <> 'meta'{{#event}} AND {{event}}{{/event}} GROUP BY 1 ORDER BY events DESC, 1;
{{/breakdown}}{{#new-returning}}
-- report: new-returning
-- Per day: people whose first day in all that is kept it is, and the others.
SELECT day, count(DISTINCT person) FILTER (born = day) AS new,
  count(DISTINCT person) FILTER (born < day) AS returning
FROM active GROUP BY day ORDER BY day;
{{/new-returning}}{{#versions}}
-- report: versions
-- Per day, each person under the version in the last of their events of that day that has one.
WITH l AS (SELECT day, person, arg_max(version, n) AS version FROM active GROUP BY day, person)
SELECT day, version, count(*) AS people, count(*) / sum(count(*)) OVER (PARTITION BY day) AS share
FROM l GROUP BY day, version ORDER BY day, version;
{{/versions}}{{#os}}
-- report: os
-- Each person under the first part of os_version in the last of their events that has one.
WITH l AS (SELECT person, arg_max(split_part(os_version, '.', 1), n) FILTER (os_version IS NOT NULL) AS os
  FROM active GROUP BY person)
SELECT os, count(*) AS people, count(*) / sum(count(*)) OVER () AS share FROM l GROUP BY os ORDER BY os;
{{/os}}{{#gaps}}
-- report: gaps
-- Numbers between a writer's lowest and highest that are not kept.
WITH w AS (SELECT writer, min(seq) AS first, max(seq) AS last, count(DISTINCT seq) AS present FROM k
  WHERE writer IS NOT NULL AND seq >= 0 GROUP BY writer)
SELECT writer, last - first - (present - 1) AS missing, first, last FROM w WHERE missing > 0 ORDER BY writer;
{{/gaps}}{{#sessions}}
-- report: sessions
-- Per day of their start: sessions, median length in seconds, views per session, and sessions of at most one view
-- that took less than 10 seconds.
WITH s AS (SELECT session, any_value(session_day) AS day, count(*) FILTER (kind = 'screen') AS shown,
    date_diff('millisecond', min(ts), max(ts)) / 1000 AS seconds
  FROM k WHERE session IS NOT NULL AND kind <> 'meta' GROUP BY session)
SELECT day, count(*) AS sessions, median(seconds) AS median, avg(shown) AS views,
  count(*) FILTER (shown <= 1 AND seconds < 10) AS bounced
FROM s WHERE day BETWEEN getvariable('from_day') AND getvariable('to_day') GROUP BY day ORDER BY day;
{{/sessions}}{{#arrival}}
-- report: arrival
-- It is made from more than the lines: waybill report arrival.
{{/arrival}}{{#providers}}
-- report: providers
-- It is made from more than the lines: waybill report providers.
{{/providers}}{{#names}}
-- report: names
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
{{/names}}{{/reports}}
