/// What the page says of `GET /status`.
extension MetricsReference {
    static let status = """
        ## Status

        `GET /status` answers with JSON what has no place in metrics, whose labels come from closed sets: agents,
        addresses and files. It is for who may open the socket, and for the program's own machine: a peer with a
        loopback address that asks under a loopback name (`Host`), so that no page of another site can. Everything else
        needs `Authorization: Bearer TOKEN` with the token in `status_token_file`; without that key it gets 403. The
        token crosses the network in clear text: use a management network or a tunnel. `waybill status` and
        `waybill top` print the answers.

        All have these members. Times are milliseconds since 1970; members may be added.

        | member | |
        | --- | --- |
        | `part` | `receiver`, `agent`, `deliver`, `merger` or `ingest` |
        | `name`, `software` | as `READY` and `HELLO` have them |
        | `time`, `started` | now, and when the program started |
        | `health` | `ok`; `degraded` (there is a problem); `down` (a receiver that acknowledges nothing, a merger \
        that does not continue, a door that stores nothing) |
        | `problems` | the lines of `/readyz` |
        | `lines`, `bytes` | since the start: made durable by a receiver, sent by an agent; a door has `lines` alone, \
        the events that it stored |

        ### Of a receiver

            {"part":"receiver","name":"collector-1","software":"waybill/0.1.0","time":…,"started":…,"health":"ok",
             "problems":[],"journal_end":182786,"lines":1204,"bytes":182786,"connected":1,
             "agents":[{"name":"shop/host-1","principal":"shop","peer":"10.0.0.7:51324","address":"10.0.0.7",
                        "software":"waybill/0.1.0","since":…,"streams":2,"last_batch":…,"last_heard":…,"lines":1204,
                        "lines_per_second":20,"clock_difference_ms":-12}],
             "projections":[{"name":"ga4","state":"ok","error":null,"behind_bytes":0,"behind_seconds":0,"lines":1204,
                             "archived":0,"exported":1200,"held":0,"refused":{"ga4.too_old":4},"skipped":{},
                             "quarantined":{},"unaccounted":0,"open_parts":1,"open_records":200,"oldest_open":…,
                             "pending":0}],
             "disk":{"free":…,"total":…,"reserve":…,"measured":…,"complete":true,
                     "parts":[{"name":"journal","bytes":182786,"files":1}]}}

        - `journal_end` is the position up to which the journal is durable. `GET /status?after=POSITION` answers once it
          is greater than that, or after 8 seconds; at most four requests wait, and one more gets 503. `waybill live`
          follows the journal with it.
        - `agents` has at most 1,000 of the `connected` agents, those that were silent longest first. `software` and
          `clock_difference_ms` are `null` for an agent that did not say; the difference is how far its clock was ahead
          when it connected, less the time that `HELLO` took. `software` has at most 64 characters, and `?` for each
          that is not printable ASCII. `last_batch` is `null` before the first batch; `lines_per_second` is an average
          of ten seconds.
        - A projection's `state` is `ok`, `failing` (the disk refuses it; `error` has the code) or `waiting` (for
          space). `behind_seconds` is the age of the oldest batch that its files do not have: at most as old as said if
          it is no longer in memory, and `null` if it is not known. The counts are those of the metrics, as of the last
          checkpoint; reasons with a count of 0 are left out. `pending` is `behind_bytes`.
        - `disk` has the sizes of the data directory's folders, and of each export. They are counted when someone asks,
          at most every ten seconds, by a thread that takes no more than a twentieth of the time; `measured` says when,
          and is `null` before the first count. `complete` is `false` for a directory of more than two million files.

        - With a bucket there is `"store":{"chain":"collector-1~9f3c0a517be24d86","stored":180000,"unstored_bytes":2786,
          "unstored_seconds":1,"error":null}`: the position up to which the bucket has the journal, what it lacks and
          for how long, and the code of the last failure while it lasts.

        ### Of a merger

            {"part":"merger","name":"merger-1","software":"waybill/0.1.0","time":…,"started":…,"health":"ok",
             "problems":[],"fleet":"5b0c…","error":null,"round":1204,"rounds":17,"through":…,"lag_seconds":1,
             "journal_end":182786,"lines":1204,"dropped_lines":20,"conflict_lines":0,"unproven_lines":0,
             "damaged_bytes":0,"missing_bytes":0,"missing_streams":0,
             "missing":[{"principal":"shop","stream":"…","ranges":"0-512,1024-2048","bytes":1536,"told":["collector-2"]}],
             "before_streams":1,
             "before":[{"principal":"shop","stream":"…","ranges":"0-512","bytes":512,"holders":["collector-1"]}],
             "published":{"created":8,"present":0,"different":0,"failed":0},"chain_count":1,
             "chains":[{"chain":"collector-1~9f3c0a517be24d86","position":182786,"heard":…,"stale":false}],
             "projections":[…],"disk":{…}}

        - `round` is the number of the last round that was applied, `rounds` how many were since the start; counts are
          since the start, too. `through` is the time by which days can be sealed. `error` says why nothing is merged,
          with the object's name.
        - `missing` has at most 1,000 of the `missing_streams` streams of which bytes are in no piece so far, though
          they lie below the stream's end, or a receiver (`told`) was told by an agent that the fleet has them.
        - `before` has at most 1,000 of the `before_streams` streams of which bytes are before the fleet, in the own
          archives of `holders`, as agents said: they are in no piece, and not missing.
        - `chains` has at most 10,000 of the `chain_count` chains: the position up to which each is merged, and the time
          that its receiver last wrote. `stale`: it is the newest chain of its receiver, and silent for more than half
          an hour and less than a week.
        - `projections` and `disk` are as a receiver's.

        ### Of an agent

            {"part":"agent","name":"host-1","software":"waybill/0.1.0","time":…,"started":…,"health":"ok","problems":[],
             "connected":true,"receiver":"collector-1","address":"collect.example.com:4390","since":…,"last_error":null,
             "lines":1204,"bytes":182786,"acknowledged":182786,"lost_bytes":0,"behind_bytes":0,"in_flight_bytes":0,
             "look_lag_seconds":0,"hanging":[],"refused_files":{},"followed":1,
             "files":[{"path":"/var/log/web.json","size":182786,"acknowledged":182786,"behind_bytes":0,
                       "behind_seconds":null,"state":"shipped","error":null}]}

        - `receiver`, `address` and `since` are `null` without a connection; `last_error` is the last failure since
          there was one.
        - `files` has at most 1,000 of the `followed` files, and files and folders that cannot be read: those with a
          problem first, then those that are furthest behind. `refused_files` counts by reason those that are not
          followed.
        - `behind_seconds` is how long the oldest byte that is not acknowledged has waited, at most. It is `null` if
          nothing waits.
        - `look_lag_seconds` is how long ago every file that was written to within the last five minutes was looked at:
          0 or 1, unless there are more than 10,000 of them or their disk is slow. It is 0 if there are none.
        - `hanging` has each mount that does not answer, as `{"path":"/mnt/logs","seconds":12,"files":3,"sources":1}`:
          for how long, how many followed files are on it, and how many sources have such files or patterns that lead
          there. Their files are `unreadable` if they were looked at, and nothing else is concluded about them.
          `seconds` counts from the call that did not return.
        - `state` is `shipped`, `sending`, `waiting` (for a receiver or its turn), `unfinished` (half a line is left),
          `refused` (by the receiver, which is asked again), `disputed` (the receiver holds other bytes), `unreadable`,
          or `gone` (deleted or cut before all of it was shipped). `error` is the last one of the file, of at most 200
          characters.

        ### Of a door

            {"part":"ingest","name":"127.0.0.1:4380","software":"waybill/0.1.0","time":…,"started":…,"health":"ok",
             "problems":[],"lines":1204,"repeated":3,"quarantined":1,"connections":17,"waiting_bytes":0,
             "refused":{"unknown-key":2},"faults":{"no-name":1},"certificate_expiry":null,
             "keys":[{"key":"wk_shop_0001","bundle":"com.example.shop","env":"prod","stored":1204,"repeated":3,
                      "quarantined":1,"refused":{"too-fast":4},"last":…}]}

        - `refused` counts requests by reason, as `waybill_ingest_refused_requests_total` does; those of a key have only
          reasons that were found after the key was known. `faults` counts events, as `waybill_ingest_faults_total`
          does.
        - `last` is when events of the key were last stored, or had been stored before; `null` if none came since the
          start.
        - With `ingest.line` there is `"line":{"receiver":"/run/waybill/proxied.sock","tunnels":2,"away_since":null,
          "away_reason":null}`. While no tunnel reaches the receiver, `away_since` is when the first one did not, and
          `away_reason` is why the last one did not, in at most 200 characters. The door is `degraded` then, and still
          ready.

        """ + "\n"
}
