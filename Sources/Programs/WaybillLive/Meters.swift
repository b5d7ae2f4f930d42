internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
internal import WaybillSystem

/// How many lines came in each of the last 60 seconds.
struct RateMeter {
    private var counts = [Int](repeating: 0, count: 60)
    /// The second of the newest count.
    private var second: Int64 = 0

    mutating func add(_ count: Int, at time: WallTime) {
        self.move(to: time.milliseconds / 1000)
        let age = self.second - time.milliseconds / 1000
        guard age < 60 else { return }
        self.counts[Int((time.milliseconds / 1000) % 60)] += count
    }

    private mutating func move(to second: Int64) {
        guard second > self.second else { return }
        let steps = min(60, second - self.second)
        for step in 0..<steps { self.counts[Int((second - step) % 60)] = 0 }
        self.second = second
    }

    /// Oldest first, up to the second before `now`, which is not over.
    mutating func rates(now: WallTime) -> [Int] {
        self.move(to: now.milliseconds / 1000)
        return (1...60).map { self.counts[Int((self.second + Int64($0)) % 60)] }
    }
}

/// The newest delays.
struct DelayMeter {
    private var delays: [Int] = []
    private var next = 0
    private let countMax: Int

    init(countMax: Int) {
        self.countMax = countMax
    }

    mutating func add(_ delay: Int) {
        if self.delays.count < self.countMax {
            self.delays.append(delay)
        } else {
            self.delays[self.next] = delay
            self.next = (self.next + 1) % self.countMax
        }
    }

    /// The delays that half, and 99 of 100, did not exceed; `nil` without any.
    var percentiles: (p50: Int, p99: Int)? {
        guard !self.delays.isEmpty else { return nil }
        let sorted = self.delays.sorted()
        return (sorted[(sorted.count - 1) / 2], sorted[(sorted.count * 99 + 99) / 100 - 1])
    }
}

/// Where lines came from, with their delays and when each was last heard.
///
/// The segments of a spool are one source, which is the spool's folder: an app or a door begins a segment every megabyte.
struct SourceMeters {
    private struct Key: Hashable {
        let path: String
        /// Of a file that is not a segment.
        let stream: String?
        let env: String
        let app: String
    }

    private struct Meter {
        var lineCount = 0
        var last = WallTime.unknown
        var stream = ""
        var delays = DelayMeter(countMax: 200)
        /// What its events were sent as over HTTP; a door's spool has one or several.
        var dialects: Set<String> = []
    }

    /// One more takes the place of the one that was heard longest ago.
    private static let countMax = 200
    /// A door has five; another program that writes a spool may have others.
    private static let dialectCountMax = 8

    private var meters: [Key: Meter] = [:]

    mutating func add(_ batch: LiveBatch, lineCount: Int) {
        let source = batch.reader.source
        let folder = Self.spool(ofSegment: batch.path)
        let key = Key(
            path: folder ?? batch.path, stream: folder == nil ? batch.stream : nil, env: source.env.rawValue,
            app: source.bundle)
        if self.meters[key] == nil, self.meters.count >= Self.countMax,
            let oldest = self.meters.min(by: { $0.value.last.milliseconds < $1.value.last.milliseconds })
        {
            self.meters[oldest.key] = nil
        }
        var meter = self.meters.removeValue(forKey: key) ?? Meter()
        meter.lineCount += lineCount
        meter.stream = batch.stream
        if batch.receivedAt != .unknown { meter.last = batch.receivedAt }
        var tape = JSONTape()
        for row in batch.rows.suffix(50) {
            if let delay = row.delay { meter.delays.add(delay) }
            guard folder != nil, let dialect = row.withOriginal({ Self.dialect(of: $0, &tape) }),
                meter.dialects.count < Self.dialectCountMax
            else { continue }
            meter.dialects.insert(dialect)
        }
        self.meters[key] = meter
    }

    private static func dialect(of line: UnsafeRawBufferPointer, _ tape: inout JSONTape) -> String? {
        guard tape.accepts(line, from: 0), let index = tape.firstValue(of: "via", in: 0), tape[index].kind == .string
        else { return nil }
        return ShownText.cut(JSONText.string(tape.bytes(of: index)), to: 20)
    }

    /// The folder of `<writer>-<first sequence>.ndjson`; `nil` for another file (`Protocol/formats/spool.md`).
    static func spool(ofSegment path: String) -> String? {
        let suffix = ".ndjson"
        guard path.hasSuffix(suffix), let slash = path.lastIndex(of: "/") else { return nil }
        let name = path[path.index(after: slash)...].dropLast(suffix.count).utf8
        // A UUID, and a number.
        guard name.count > 37, name.dropFirst(36).first == UInt8(ascii: "-"),
            name.prefix(36).filter({ $0 == UInt8(ascii: "-") }).count == 4,
            name.dropFirst(37).allSatisfy({ 0x30...0x39 ~= $0 })
        else { return nil }
        return String(path[..<slash])
    }

    /// Heard last first.
    func write(to json: inout JSONWriter) {
        let sorted = self.meters.sorted {
            ($1.value.last.milliseconds, $0.key.path) < ($0.value.last.milliseconds, $1.key.path)
        }
        json.member("sources", objects: sorted.prefix(50)) { json, entry in
            json.member("source", ShownText.cut(entry.key.path))
            json.member("stream", entry.value.stream)
            json.member("env", entry.key.env)
            json.member("app", ShownText.cut(entry.key.app))
            if !entry.value.dialects.isEmpty {
                json.member("via", array: entry.value.dialects.sorted()) { $0.string($1) }
            }
            json.member("lines", entry.value.lineCount)
            json.member("last", entry.value.last == .unknown ? nil : Int(entry.value.last.milliseconds))
            json.member("p50", entry.value.delays.percentiles?.p50)
            json.member("p99", entry.value.delays.percentiles?.p99)
        }
    }
}
