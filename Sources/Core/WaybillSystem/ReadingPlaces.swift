internal import CWaybillSystem

/// Where each reader of a program is, in memory that outlives the process.
///
///     claim ─▶ enter(a batch) ─▶ leave            phase 1: the batch as a whole
///                 └─▶ enter(a line) … ─▶ enter(the batch again) ─▶ leave      2: each line alone; 3: the batch after that
///
/// What is durable is read again at each start, so a record that ends the process would end each start. A reader says
/// where it is before it reads. When the process dies by a fault of its own (`SIGSEGV`, `SIGBUS`, `SIGILL`, `SIGTRAP`,
/// `SIGABRT`, `SIGFPE`), the handler marks the place of the thread that died; the next process finds it there
/// (``ReadingPlace/finding(at:_:)``). SIGKILL, a full memory and a power cut leave no mark, so they never set a record aside; only
/// their number at one place is counted.
///
/// Constraints: some stores to memory for each batch, no system call and no sync. A power cut may take the file, and is
/// never a record's fault.
///
/// `@unchecked Sendable`: a place is used by one thread at a time, and `claiming` is held while one is looked for.
package final class ReadingPlaces: @unchecked Sendable {
    /// Places of one program.
    private static let countMax = 128

    private let memory: UnsafeMutablePointer<waybill_place>
    private let isMapped: Bool
    private let claiming = Lock(())

    /// Places for as long as this value lives.
    package init() {
        self.memory = .allocate(capacity: Self.countMax)
        self.memory.initialize(repeating: waybill_place(), count: Self.countMax)
        self.isMapped = false
    }

    /// What another process left when it died.
    package convenience init(leftBy other: ReadingPlaces) {
        self.init()
        for index in 0..<Self.countMax { self.memory[index] = other.memory[index] }
        self.begin()
    }

    /// Places in a file, which is created if it is missing; has the faults of the program marked from now on.
    ///
    /// Fails if the file cannot be used; `errno` says why.
    package init?(path: String, permissions: FilePermissions = .data) {
        let byteCount = Self.countMax * MemoryLayout<waybill_place>.stride
        guard let memory = waybill_map_shared(path, UInt(byteCount), permissions.file) else { return nil }
        self.memory = memory.bindMemory(to: waybill_place.self, capacity: Self.countMax)
        self.isMapped = true
        self.begin()
        waybill_watch_faults()
    }

    deinit {
        // A mapping lives as long as the process: a place may be in use by a thread that ends with it.
        if !self.isMapped { self.memory.deallocate() }
    }

    /// Takes over what the process before left; the readers of a new process follow.
    ///
    /// Once one reader died by a fault, the ends of the others are explained.
    private func begin() {
        let hasFault = (0..<Self.countMax).contains { self.memory[$0].signal != 0 }
        for index in 0..<Self.countMax { Self.takeOver(&self.memory[index], isExplained: hasFault) }
    }

    private static func takeOver(_ place: inout waybill_place, isExplained: Bool) {
        defer { (place.signal, place.phase) = (0, 0) }
        guard place.phase != 0 else { return }
        if place.signal != 0 {
            place.suspect_count = Self.faultCount(of: place)
            place.suspect_phase = place.phase
            place.suspect_position = place.position
            place.suspect_stream = place.stream
            place.suspect_offset = place.offset
            place.suspect_signal = place.signal
            place.end_count = 0
        } else if !isExplained {
            let isSame = place.end_position == place.position && place.end_stream == place.stream
            place.end_count = isSame ? place.end_count + 1 : 1
            place.end_position = place.position
            place.end_stream = place.stream
            place.end_offset = place.phase == ReadingPlace.Phase.line.rawValue ? place.offset : -1
        }
    }

    /// How many faults in a row had this cause, the one that was just marked included.
    private static func faultCount(of place: waybill_place) -> Int64 {
        guard place.suspect_phase != 0, place.suspect_position == place.position, place.suspect_stream == place.stream
        else { return 1 }
        if place.suspect_phase == place.phase, place.suspect_offset == place.offset { return place.suspect_count + 1 }
        // The batch ended the program, and then this line of it alone.
        let isLineOfBatch =
            place.suspect_phase == ReadingPlace.Phase.batch.rawValue
            && place.phase == ReadingPlace.Phase.line.rawValue
        return isLineOfBatch ? 2 : 1
    }

    /// The place of a reader, with what the process before left there.
    ///
    /// - Returns: a place that remembers nothing if there are too many readers.
    package func place(of reader: String) -> ReadingPlace {
        self.claiming.withLock { _ in
            let name = Array(reader.utf8.prefix(47))
            var free: Int?
            for index in 0..<Self.countMax {
                let known = self.name(at: index)
                if known == name { return ReadingPlace(self, self.memory + index) }
                if known.isEmpty, free == nil { free = index }
            }
            guard let free else { return ReadingPlace(self, nil) }
            withUnsafeMutableBytes(of: &self.memory[free].reader) { $0.copyBytes(from: name) }
            return ReadingPlace(self, self.memory + free)
        }
    }

    /// Whether the processes before left something at any place that its reader has not passed since.
    package var hasFindings: Bool {
        (0..<Self.countMax).contains { self.memory[$0].suspect_phase != 0 || self.memory[$0].end_count > 0 }
    }

    /// Forgets what the processes before left: everything was read.
    package func forget() {
        for index in 0..<Self.countMax {
            self.memory[index].suspect_phase = 0
            self.memory[index].end_count = 0
        }
    }

    private func name(at index: Int) -> [UInt8] {
        withUnsafeBytes(of: &self.memory[index].reader) { Array($0.prefix { $0 != 0 }) }
    }
}

/// The place of one reader.
///
/// One thread uses it at a time.
package struct ReadingPlace {
    /// What was being read at a place.
    package enum Phase: Int64, Hashable, Sendable {
        /// A batch as a whole.
        case batch = 1
        /// One line of it alone.
        case line = 2
        /// The batch as a whole, after each of its lines was read alone.
        case batchAgain = 3
    }

    /// Where a process died by a fault of its own while this reader read.
    package struct Suspicion: Hashable, Sendable {
        package let phase: Phase
        /// Where the line begins in its stream, of ``Phase/line`` alone.
        package let offset: Int
        package let signal: Int
        /// Faults in a row with this cause.
        package let count: Int
    }

    /// What is known of a batch before it is read again.
    package struct Finding: Hashable, Sendable {
        /// From so many starts that ended at one batch on, its lines are read alone, so that the next end names the line.
        private static let endCountToRehearse = 2
        private static let endCountToTell = 3
        private static let faultCountToSetAside = 2

        fileprivate let suspicion: Suspicion?
        fileprivate let ends: UnexplainedEnds?

        /// The signal of the last fault; 0 without one.
        package var signal: Int { self.suspicion?.signal ?? 0 }
        /// What was read when a fault ended the process; `nil` without one.
        package var phase: Phase? { self.suspicion?.phase }
        /// Faults in a row with one cause.
        package var faultCount: Int { self.suspicion?.count ?? 0 }
        /// Whether each line is to be read alone.
        package var isToRehearse: Bool {
            self.suspicion != nil || self.ends.map { $0.count >= Self.endCountToRehearse } ?? false
        }
        /// Where the line begins that ended the process twice.
        package var poisonOffset: Int? {
            guard let suspicion, suspicion.phase == .line, suspicion.count >= Self.faultCountToSetAside else {
                return nil
            }
            return suspicion.offset
        }
        /// So many starts in a row ended here, without a fault, that an operator must hear of them.
        package var endsToTell: UnexplainedEnds? {
            guard self.suspicion == nil, let ends, ends.count >= Self.endCountToTell else { return nil }
            return ends
        }
    }

    /// Where processes ended without a fault of their own while this reader read.
    package struct UnexplainedEnds: Hashable, Sendable {
        /// Starts in a row.
        package let count: Int
        /// Where the line begins in its stream, if it was read alone.
        package let offset: Int?
    }

    /// Owns the memory.
    private let places: ReadingPlaces
    private let place: UnsafeMutablePointer<waybill_place>?

    fileprivate init(_ places: ReadingPlaces, _ place: UnsafeMutablePointer<waybill_place>?) {
        self.places = places
        self.place = place
    }

    /// Where the last process that died by a fault was, if it read this batch, and it was not read since.
    ///
    /// - Parameter stream: a hash of the stream's name, which tells batches of other histories of a journal apart.
    private func suspicion(of position: Int, _ stream: UInt64) -> Suspicion? {
        guard let place, let phase = Phase(rawValue: place.pointee.suspect_phase),
            place.pointee.suspect_position == position, place.pointee.suspect_stream == Int64(bitPattern: stream)
        else { return nil }
        return Suspicion(
            phase: phase, offset: Int(place.pointee.suspect_offset), signal: Int(place.pointee.suspect_signal),
            count: Int(place.pointee.suspect_count))
    }

    /// Whether the starts before ended while this batch was read, without a fault of the program; `nil`: none.
    private func unexplainedEnds(at position: Int, _ stream: UInt64) -> UnexplainedEnds? {
        guard let place, place.pointee.end_count > 0, place.pointee.end_position == position,
            place.pointee.end_stream == Int64(bitPattern: stream)
        else { return nil }
        return UnexplainedEnds(
            count: Int(place.pointee.end_count),
            offset: place.pointee.end_offset < 0 ? nil : Int(place.pointee.end_offset))
    }

    /// What is known of a batch; `nil`: nothing, and it is read as a whole.
    package func finding(at position: Int, _ stream: UInt64) -> Finding? {
        let suspicion = self.suspicion(of: position, stream)
        let ends = self.unexplainedEnds(at: position, stream)
        return suspicion == nil && ends == nil ? nil : Finding(suspicion: suspicion, ends: ends)
    }

    /// Says what is read next; faults of this thread are marked here until ``leave(isRead:)``.
    package func enter(_ phase: Phase, position: Int, _ stream: UInt64, offset: Int = 0) {
        guard let place else { return }
        place.pointee.phase = 0
        place.pointee.position = Int64(position)
        place.pointee.stream = Int64(bitPattern: stream)
        place.pointee.offset = Int64(offset)
        place.pointee.phase = phase.rawValue
        waybill_place_use(place)
    }

    /// Says that nothing is being read.
    ///
    /// - Parameter isRead: whether the batch was read to its end; then what is suspected of it is forgotten.
    /// - Returns: whether something was.
    @discardableResult
    package func leave(isRead: Bool) -> Bool {
        guard let place else { return false }
        waybill_place_use(nil)
        place.pointee.phase = 0
        guard isRead else { return false }
        if place.pointee.end_position == place.pointee.position { place.pointee.end_count = 0 }
        guard place.pointee.suspect_phase != 0, place.pointee.suspect_position == place.pointee.position else {
            return false
        }
        place.pointee.suspect_phase = 0
        return true
    }

    /// Marks a fault here, as the handler does.
    package func mark(signal: Int32) {
        waybill_place_mark(self.place, signal)
    }
}
