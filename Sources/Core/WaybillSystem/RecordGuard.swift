/// Keeps a program alive that reads its own durable records at a start: the door its window, the agent its registry.
///
///     begin(a file) ─▶ [ enter(a record) … if they are read alone ] ─▶ end
///
/// It decides as a receiver's readers do (``ReadingPlace/Finding``), and writes nothing: the caller sets aside what the reading
/// names, and continues with the rest.
package struct RecordGuard {
    /// How a file is read.
    package struct Reading: Hashable, Sendable {
        private let finding: ReadingPlace.Finding?

        fileprivate init(_ finding: ReadingPlace.Finding?) {
            self.finding = finding
        }

        /// Whether each record is read alone, and entered before.
        package var isAlone: Bool { self.finding?.isToRehearse ?? false }
        /// The record that ended the program twice.
        package var poison: Int? { self.finding?.poisonOffset }
        /// Whether the file ended the program twice, before any of its records was read alone.
        package var isPoison: Bool { self.finding.map { $0.phase == .batch && $0.faultCount >= 2 } ?? false }
        /// The signal of the last fault.
        package var signal: Int { self.finding?.signal ?? 0 }
        /// So many starts in a row ended here, without a fault.
        package var endsToTell: ReadingPlace.UnexplainedEnds? { self.finding?.endsToTell }
    }

    private let place: ReadingPlace

    /// - Parameter reader: its name among the program's.
    package init(_ places: ReadingPlaces, reader: String) {
        self.place = places.place(of: reader)
    }

    /// Says that a file is read from now on; its name is the same at each start.
    package func begin(_ file: String) -> Reading {
        let reading = Reading(self.place.finding(at: Self.position(of: file), 0))
        self.place.enter(.batch, position: Self.position(of: file), 0)
        return reading
    }

    /// Says that one record of the file is read.
    ///
    /// - Parameter record: tells it from the file's others, the same at each start.
    package func enter(_ record: Int, of file: String) {
        self.place.enter(.line, position: Self.position(of: file), 0, offset: record)
    }

    /// Says that the file is read.
    package func end() {
        self.place.leave(isRead: true)
    }

    private static func position(of file: String) -> Int {
        Int(FNV1a.hash(file.utf8) >> 1)
    }
}
