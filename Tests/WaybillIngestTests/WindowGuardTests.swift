import Testing
import WaybillSystem
import WaybillTestSupport

@testable import WaybillDoor

/// The starts of a door that fills its window from a segment.
@Suite struct WindowGuardTests {
    private static let segment = Array("one\ntwo!\n\nthree\ntorn".utf8)

    /// - Returns: the lines that were read; `nil` if one of them ended the door.
    private static func start(
        _ places: inout ReadingPlaces, _ files: FaultyFiles, _ notices: inout [WindowNotice]
    ) throws -> [String]? {
        var window = WindowGuard(places, quarantine: "/quarantine", files: files)
        try window.load()
        var read: [String] = []
        var left: ReadingPlaces?
        try window.read(Self.segment, of: "segment-1") { [places] line in
            let text = String(decoding: line, as: UTF8.self)
            if text.contains("!"), left == nil {
                places.place(of: "window").mark(signal: 11)
                left = ReadingPlaces(leftBy: places)
            }
            read.append(text)
        }
        notices = window.takeNotices()
        places = left ?? ReadingPlaces(leftBy: places)
        return left == nil ? read : nil
    }

    @Test func `a line that ends the door twice is not read again, and stays in its segment`() throws {
        let files = FaultyFiles()
        try files.createDirectories("/quarantine")
        var places = ReadingPlaces()
        var notices: [WindowNotice] = []
        for _ in 0..<2 { #expect(try Self.start(&places, files, &notices) == nil) }
        #expect(try Self.start(&places, files, &notices) == ["one", "three"])
        #expect(notices == [.setAside(file: "segment-1", offset: 4, byteCount: 4, signal: 11)])
        // It is known for good, also to a program whose places are gone.
        places = ReadingPlaces()
        #expect(try Self.start(&places, files, &notices) == ["one", "three"])
        #expect(notices == [])
    }
}
