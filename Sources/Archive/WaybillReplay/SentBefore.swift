internal import WaybillData
internal import WaybillEvent
package import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillSystem

/// The effect of sending a new generation on events that were already sent from the current one.
package struct SentBefore: Hashable, Sendable, CustomStringConvertible {
    package let provider: Destination
    /// Events sent again to a provider that removes no duplicates.
    package var again = 0
    /// Events sent again with different values in the members that the provider compares.
    package var underAnotherKey = 0
    /// Events sent again after the time for which the provider remembers keys.
    package var afterWindow = 0

    /// Whether nothing would be counted twice.
    package var isEmpty: Bool { self.again + self.underAnotherKey + self.afterWindow == 0 }

    package var description: String {
        var parts: [String] = []
        if self.again > 0 { parts.append("\(self.again) were sent already, and it removes no duplicates") }
        if self.underAnotherKey > 0 { parts.append("\(self.underAnotherKey) were sent already under another key") }
        if self.afterWindow > 0 {
            parts.append("\(self.afterWindow) were sent so long ago that it no longer knows them")
        }
        return "\(self.provider.rawValue): of the events \(parts.joined(separator: ", "))"
    }
}

/// Remembers the keys under which events of delivered parts were sent.
struct DeliveredKeys: ~Copyable {
    static let eventCountMax = 8 << 20

    private let key: SendKey
    private var keys: [Digest128: Digest128] = [:]
    private var tape = JSONTape()
    private(set) var isFull = false
    private(set) var report: SentBefore

    init(_ provider: Destination) {
        self.key = provider.type.sendKey
        self.report = SentBefore(provider: provider)
    }

    var isEmpty: Bool { self.keys.isEmpty }

    /// Remembers a record that was sent.
    mutating func remember(_ record: [UInt8], ids: [ArraySlice<UInt8>]) {
        let key = self.digest(of: record)
        for id in ids where !id.elementsEqual([UInt8(ascii: "-")]) {
            guard self.keys.count < Self.eventCountMax else {
                self.isFull = true
                return
            }
            self.keys[id.withUnsafeBytes { Digest128(id: $0) }] = key
        }
    }

    /// Checks a record that would be sent this many days after its own day.
    mutating func judge(_ record: [UInt8], ids: [ArraySlice<UInt8>], ageInDays: Int) {
        var own: Digest128?
        for id in ids {
            guard let sent = self.keys[id.withUnsafeBytes({ Digest128(id: $0) })] else { continue }
            switch self.key {
            case .none: self.report.again += 1
            case .harmless: break
            case .members(_, let dayCount):
                let key = own ?? self.digest(of: record)
                own = key
                if key != sent {
                    self.report.underAnotherKey += 1
                } else if let dayCount, ageInDays > dayCount {
                    self.report.afterWindow += 1
                }
            }
        }
    }

    private mutating func digest(of record: [UInt8]) -> Digest128 {
        guard case .members(let paths, _) = self.key else { return Digest128(high: 0, low: 0) }
        return record.withUnsafeBytes { bytes in
            guard self.tape.accepts(bytes) else { return Digest128([bytes]) }
            let texts = paths.map { path -> UnsafeRawBufferPointer in
                var index = 0
                for name in path {
                    guard let value = self.tape.firstValue(of: name, in: index) else {
                        return UnsafeRawBufferPointer(start: nil, count: 0)
                    }
                    index = value
                }
                return self.tape.bytes(of: index)
            }
            return Digest128(texts)
        }
    }
}

extension Replayer {
    /// Checks that sending the new generation would not make a provider count any event twice.
    ///
    /// - Returns: the delivered parts that are damaged: what of them was sent is unknown.
    func requireUnsent(_ observer: Replay.Observer) throws(Replay.Failure) -> [String] {
        var found: [SentBefore] = []
        var damaged: [String] = []
        for options in self.options {
            let report = try self.sentBefore(options, &damaged)
            if let report, !report.isEmpty { found.append(report) }
        }
        guard found.isEmpty else { throw .sentBefore(found) }
        return damaged
    }

    private func sentBefore(
        _ options: ExportOptions, _ damaged: inout [String]
    ) throws(Replay.Failure) -> SentBefore? {
        let provider = options.provider
        if case .harmless = provider.type.sendKey { return nil }
        var keys = DeliveredKeys(provider)
        do throws(FileSystemError) {
            let lengths = try PresentPartition.lengths(of: options, in: self.data)
            for unit in try self.presentUnits(below: "exports/\(provider.rawValue)") {
                let partition = PresentPartition(
                    data: self.data, path: "exports/\(provider.rawValue)/\(unit)", options: options, lengths: lengths)
                for part in try partition.deliveredParts() {
                    do throws(FileSystemError) {
                        try partition.visitRecords(of: part) { record, ids in
                            keys.remember(record, ids: ids)
                            return true
                        }
                    } catch {
                        guard error.isDamage || error.errno == Errno.noEntry else { throw error }
                        damaged.append(part.stem)
                    }
                }
            }
            guard !keys.isEmpty else { return nil }
            let work = Self.workDirectory(provider)
            for unit in try self.presentUnits(below: work) {
                let end = options.zone.startOfDay(CalendarDay(daysSince1970: unit.day.daysSince1970 + 1)) * 1000
                let age = Int((self.request.now.milliseconds - end) / 86_400_000)
                let partition = PresentPartition(
                    data: self.data, path: "\(work)/\(unit)", options: options, lengths: [:])
                for part in try partition.parts() {
                    try partition.visitRecords(of: part) { record, ids in
                        keys.judge(record, ids: ids, ageInDays: age)
                        return true
                    }
                }
            }
        } catch {
            throw .disk(error)
        }
        if keys.isFull { throw .tooMany(what: "events that were sent", limit: DeliveredKeys.eventCountMax) }
        return keys.report
    }

    /// The environments and days of the range with a folder below a directory of exports.
    func presentUnits(below directory: String) throws(FileSystemError) -> [ExportDay] {
        let top = Path.join(self.data.root, directory)
        guard try self.files.status(at: top) != nil else { return [] }
        var units: [ExportDay] = []
        for name in try self.files.list(top) where name.hasPrefix("env=") {
            guard let environment = DeploymentEnvironment(rawValue: String(name.dropFirst(4))) else { continue }
            for date in try self.files.list(Path.join(top, name)) where date.hasPrefix("date=") {
                guard let day = CalendarDay(String(date.dropFirst(5))), self.request.range.admits(day, environment)
                else { continue }
                units.append(ExportDay(env: environment, day: day))
            }
        }
        return units.sorted()
    }
}
