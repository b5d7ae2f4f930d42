import WaybillData
import WaybillFleet
import WaybillHost
import WaybillJSON
import WaybillLive
import WaybillSystem

/// What `waybill fleet` found, and what is wrong with it.
struct FleetReport {
    /// A receiver's chain that was not heard of for so long is silent, as mergers take it.
    static let silence = 1800
    /// After so long it counts as taken away.
    static let memory = 7 * 86_400
    /// Pieces are merged within seconds.
    static let waitMax = 300
    /// What a receiver has stored is in the bucket within seconds.
    static let unstoredMax = 60

    let store: String
    let time: WallTime
    var survey: FleetSurvey?
    /// Why the bucket could not be read.
    var storeFailure: String?
    var answers: [StatusAnswer] = []
    var local: FleetSurvey.LocalState?
    var notes: [String] = []

    init(store: String, time: WallTime) {
        self.store = store
        self.time = time
    }

    private var documents: [StatusDocument] { self.answers.compactMap(\.document) }
    private var mergers: [StatusDocument] { self.documents.filter { $0.part == .merger } }

    /// How far chains are merged, as mergers say: the one that is farthest counts.
    var positions: FleetSurvey.Positions {
        var positions = self.local?.chains ?? [:]
        for entry in self.mergers.flatMap({ $0.objects("chains") }) {
            guard let name = entry["chain"]?.string.flatMap(ChainName.init), let position = entry["position"]?.count
            else { continue }
            var chain = MergedChain(position: JournalPosition(position))
            chain.lastMark = entry["heard"]?.integer.map { WallTime(milliseconds: Int64($0)) } ?? .unknown
            if let known = positions[name], known.position >= chain.position { continue }
            positions[name] = chain
        }
        return positions
    }

    // MARK: Rows

    /// Of a receiver that was asked.
    struct Unstored: Hashable {
        let byteCount: Int
        let seconds: Int
        let error: String?
    }

    enum State: String {
        case ok
        /// The bucket lacks something for long, or something waits for long.
        case behind
        case silent
        /// Another chain of the receiver was written later.
        case former
        case gone
    }

    struct Row {
        let chain: FleetSurvey.Chain
        let state: State
        /// Since when it was not heard of, in seconds; `nil`: it never was.
        let silence: Int?
        /// For how long the oldest piece that is not merged has waited.
        let waited: Int?
        let unstored: Unstored?
    }

    /// What receivers say of their chains.
    private var unstored: [String: Unstored] {
        let pairs = self.documents.compactMap { document -> (String, Unstored)? in
            guard document.part == .receiver, let store = document.json["store"], let chain = store["chain"]?.string
            else { return nil }
            return (
                chain,
                Unstored(
                    byteCount: document.count("unstored_bytes", of: store),
                    seconds: document.count("unstored_seconds", of: store), error: document.text("error", of: store))
            )
        }
        return Dictionary(pairs) { first, _ in first }
    }

    /// The chains; those with a problem first, those that are over last.
    var rows: [Row] {
        let chains = self.survey?.chains ?? []
        let unstored = self.unstored
        var newest: [String: FleetSurvey.Chain] = [:]
        for chain in chains where newest[chain.name.receiver].map({ $0.heard < chain.heard }) ?? true {
            newest[chain.name.receiver] = chain
        }
        let rows = chains.map { chain -> Row in
            let silence = chain.heard == .unknown ? nil : self.age(chain.heard)
            let waited = chain.waitingSince.map(self.age)
            let missing = unstored[chain.name.description]
            return Row(
                chain: chain,
                state: Self.state(
                    isNewest: newest[chain.name.receiver]?.name == chain.name, silence, waited, missing),
                silence: silence, waited: waited, unstored: missing)
        }
        let rank: [State: Int] = [.silent: 0, .behind: 0, .ok: 1, .former: 2, .gone: 3]
        return rows.enumerated().sorted {
            (rank[$0.element.state] ?? 0, $0.offset) < (rank[$1.element.state] ?? 0, $1.offset)
        }.map(\.element)
    }

    private static func state(isNewest: Bool, _ silence: Int?, _ waited: Int?, _ unstored: Unstored?) -> State {
        if (waited ?? 0) > Self.waitMax || (unstored?.seconds ?? 0) > Self.unstoredMax { return .behind }
        guard isNewest else { return .former }
        guard let silence else { return .ok }
        return silence > Self.memory ? .gone : silence > Self.silence ? .silent : .ok
    }

    private func age(_ time: WallTime) -> Int {
        Int(max(0, self.time.milliseconds - time.milliseconds) / 1000)
    }

    // MARK: Missing bytes

    /// Bytes of a stream that are in no piece.
    struct Gap: Hashable {
        let principal: String
        let stream: String
        let ranges: String
        let byteCount: Int
        /// Those that had them, as agents said.
        let receivers: [String]

        func add(to json: inout JSONWriter, receivers name: StaticString) {
            json.member("principal", self.principal)
            json.member("stream", self.stream)
            json.member("ranges", self.ranges)
            json.member("bytes", self.byteCount)
            json.member(name, array: self.receivers) { $0.string($1) }
        }
    }

    /// The merger that is farthest; `nil` if that is the one whose state is on this host.
    var farthestMerger: StatusDocument? {
        let merger = self.mergers.max { $0.count("round") < $1.count("round") }
        return merger.flatMap { $0.count("round") >= self.local?.round ?? 0 ? $0 : nil }
    }

    /// What the merger that is farthest says.
    var missing: [Gap] {
        self.gaps("missing", receivers: "told")
            ?? (self.local?.missing ?? []).map {
                Gap(
                    principal: $0.principal, stream: $0.stream, ranges: $0.rangesText, byteCount: $0.byteCount,
                    receivers: $0.receivers)
            }
    }

    /// What a receiver took before it belonged to the fleet; their own archives have it.
    var beforeFleet: [Gap] {
        self.gaps("before", receivers: "holders")
            ?? (self.local?.beforeFleet ?? []).map {
                Gap(
                    principal: $0.principal, stream: $0.stream, ranges: $0.ranges.description,
                    byteCount: $0.ranges.byteCount, receivers: $0.holders)
            }
    }

    private func gaps(_ name: StaticString, receivers: StaticString) -> [Gap]? {
        guard let merger = self.farthestMerger else { return nil }
        return merger.objects(name).map { gap in
            Gap(
                principal: gap["principal"]?.string ?? "", stream: gap["stream"]?.string ?? "?",
                ranges: gap["ranges"]?.string ?? "", byteCount: merger.count("bytes", of: gap),
                receivers: (gap[receivers]?.elements ?? []).compactMap(\.string))
        }
    }

    // MARK: Health

    var health: Health {
        if self.storeFailure != nil || self.isDown { return .down }
        return self.problems.isEmpty ? .ok : .degraded
    }

    private var isDown: Bool {
        let rows = self.rows
        let isSilent = !rows.isEmpty && !rows.contains { ($0.silence ?? .max) <= Self.silence }
        let isWaiting = rows.contains { ($0.waited ?? 0) > Self.silence }
        return isSilent || isWaiting || self.answers.contains { $0.health == .down }
    }

    /// What an operator must look at, a line each.
    var problems: [String] {
        var problems = self.notes
        if let storeFailure { problems.append("the bucket cannot be read: \(storeFailure)") }
        if let survey, survey.fleet == nil { problems.append("the bucket names no fleet: waybill store init does") }
        for row in self.rows { problems += Self.problems(of: row) }
        for name in self.survey?.twins ?? [] {
            problems.append(
                "two receivers are named \(name): give each a receiver.name of its own, and restart the one that was added"
            )
        }
        let missing = self.missing
        if !missing.isEmpty {
            let byteCount = missing.reduce(0) { $0 + min($1.byteCount, .max / 4 - $0) }
            problems.append(
                "\(HumanText.bytes(byteCount)) of \(missing.count) streams are missing: see the table; the receivers that "
                    + "had them must come back with their disks, or the bytes are lost")
        }
        for answer in self.answers where answer.health != .ok {
            guard let document = answer.document else {
                problems.append("\(answer.place) does not answer: \(answer.failure)")
                continue
            }
            let said = (document.json["problems"]?.elements ?? []).compactMap(\.string)
            let name = document.json["name"]?.string ?? "?"
            problems += said.map { "\(document.part.rawValue) \(name): \($0)" }
        }
        for merger in self.mergers {
            guard let published = merger.json["published"], merger.count("different", of: published) > 0 else {
                continue
            }
            problems.append(
                "merger \(merger.json["name"]?.string ?? "?"): the bucket has other files of sealed days than it makes")
        }
        return problems
    }

    private static func problems(of row: Row) -> [String] {
        let name = row.chain.name
        var problems: [String] = []
        if row.state == .silent {
            problems.append("receiver \(name.receiver) was last heard of \(HumanText.seconds(row.silence ?? 0)) ago")
        }
        if let waited = row.waited, waited > Self.waitMax {
            problems.append("pieces of \(name) have waited for a merger for \(HumanText.seconds(waited))")
        }
        if let unstored = row.unstored, unstored.seconds > Self.unstoredMax {
            problems.append(
                "receiver \(name.receiver): the bucket lacks \(HumanText.bytes(unstored.byteCount)) for "
                    + "\(HumanText.seconds(unstored.seconds))\(unstored.error.map { " (\($0))" } ?? "")")
        }
        return problems
    }

    // MARK: JSON

    var json: String {
        let (rows, missing, survey) = (self.rows, self.missing, self.survey)
        return JSONWriter.line { json in
            json.member("store", self.store)
            json.member("time", self.time.milliseconds)
            json.member("health", self.health.rawValue)
            json.member("problems", array: self.problems) { $0.string($1) }
            json.member("fleet", survey?.fleet?.fleet)
            json.member("round", survey?.round?.number)
            json.member("round_time", survey?.round.map { Int($0.time.milliseconds) })
            json.member("mergers", objects: survey?.proposers ?? []) { json, merger in
                json.member("name", merger.name)
                json.member("round", merger.round)
                json.member("time", merger.time.milliseconds)
                json.member("rounds", merger.count)
            }
            json.key("checkpoint")
            if let checkpoint = survey?.checkpoint {
                json.beginObject()
                json.member("position", checkpoint.position.rawValue)
                json.member("round", checkpoint.round)
                json.member("merger", checkpoint.merger)
                json.member("time", checkpoint.time.milliseconds)
                json.endObject()
            } else {
                json.null()
            }
            json.member("chains", objects: rows) { json, row in
                json.member("chain", row.chain.name.description)
                json.member("receiver", row.chain.name.receiver)
                json.member("state", row.state.rawValue)
                json.member("uploaded", row.chain.uploaded?.rawValue)
                json.member("heard_seconds", row.silence)
                json.member("merged", row.chain.merged?.rawValue)
                json.member("waiting_bytes", row.chain.waitingByteCount)
                json.member("waiting_seconds", row.waited ?? (row.chain.merged == nil ? nil : 0))
                json.member("unstored_bytes", row.unstored?.byteCount)
                json.member("unstored_seconds", row.unstored?.seconds)
            }
            json.member("missing", objects: missing) { $1.add(to: &$0, receivers: "told") }
            json.member("before", objects: self.beforeFleet) { $1.add(to: &$0, receivers: "holders") }
            json.member("asked", objects: self.answers) { json, answer in
                json.member("place", answer.place.description)
                json.member("part", answer.document?.part.rawValue)
                json.member("name", answer.document?.json["name"]?.string)
                json.member("health", answer.health.rawValue)
            }
        }
    }
}
