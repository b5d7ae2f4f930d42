import Testing
import WaybillSystem

/// The starts of a program that reads a file of records.
@Suite struct RecordGuardTests {
    /// - Returns: the records that were read; `nil` if one of them, or what comes before them, ended the program.
    private static func start(
        _ places: inout ReadingPlaces, _ records: [Int], deadly: Set<Int>, isFileDeadly: Bool = false,
        isFault: Bool = true
    ) -> (read: [Int]?, reading: RecordGuard.Reading) {
        let guardian = RecordGuard(places, reader: "registry")
        let reading = guardian.begin("file")
        var read: [Int] = []
        for record in records where record != reading.poison && !isFileDeadly {
            if reading.isAlone { guardian.enter(record, of: "file") }
            if deadly.contains(record) { break }
            read.append(record)
        }
        let isDead = isFileDeadly || records.contains { deadly.contains($0) && $0 != reading.poison }
        guard isDead else {
            guardian.end()
            places = ReadingPlaces(leftBy: places)
            return (read, reading)
        }
        if isFault { places.place(of: "registry").mark(signal: 11) }
        places = ReadingPlaces(leftBy: places)
        return (nil, reading)
    }

    @Test func `a record that ends the program twice is named, and the others are read`() {
        var places = ReadingPlaces()
        for _ in 0..<2 { #expect(Self.start(&places, [1, 2, 3], deadly: [2]).read == nil) }
        let third = Self.start(&places, [1, 2, 3], deadly: [2])
        #expect(third.read == [1, 3])
        #expect(third.reading.poison == 2 && third.reading.signal == 11)
        // Then nothing is suspected.
        let fourth = Self.start(&places, [1, 3], deadly: [])
        #expect(fourth.read == [1, 3] && !fourth.reading.isAlone)
    }

    @Test func `a file that ends the program before its first record is named as a whole`() {
        var places = ReadingPlaces()
        #expect(!Self.start(&places, [1], deadly: [], isFileDeadly: true).reading.isPoison)
        #expect(!Self.start(&places, [1], deadly: [], isFileDeadly: true).reading.isPoison)
        let third = Self.start(&places, [1], deadly: [])
        #expect(third.reading.isPoison && third.reading.poison == nil)
    }

    @Test func `kills name nothing, and are told from the third on`() {
        var places = ReadingPlaces()
        for count in 0..<5 {
            let start = Self.start(&places, [1, 2], deadly: [2], isFault: false)
            #expect(start.read == nil && start.reading.poison == nil && !start.reading.isPoison)
            #expect(start.reading.endsToTell?.count == (count < 3 ? nil : count))
        }
    }
}
