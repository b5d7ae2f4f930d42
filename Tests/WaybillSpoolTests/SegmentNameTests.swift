import Testing
import WaybillSpool
import WaybillSystem
import WaybillTestSupport

private let writerID = "0195505e-aaaa-7000-8000-0000000000aa"

@Test func `a name reads back as what it was made of`() {
    let name = SegmentName(writer: writerID, firstSequence: 42)
    #expect(name.description == "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000042.ndjson")
    #expect(SegmentName(parsing: name.description) == name)
    let last = SegmentName(writer: writerID, firstSequence: .max)
    #expect(SegmentName(parsing: last.description) == last)
    let reshipped = SegmentName(reshipping: name, contentDigest: "c0ffee0123456789")
    #expect(
        reshipped.description == "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000042:c0ffee0123456789.ndjson")
    #expect(SegmentName(parsing: reshipped.description) == reshipped)
    #expect(reshipped.original == name && reshipped != name && name < reshipped)
    for name in [name, last, reshipped] {
        for suffix in ["", ".new", ".evicted"] { #expect(SegmentName.begins(name.description + suffix)) }
    }
}

@Test(arguments: [
    "", ".ndjson", "events.ndjson", "install.json",
    "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000042.ndjson.new",
    "0195505e-aaaa-7000-8000-0000000000aa-0000000000000000042.ndjson",
    "0195505e-aaaa-7000-8000-0000000000aa-+0000000000000000042.ndjson",
    "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000000.ndjson",
    "0195505e-aaaa-7000-8000-0000000000aa-99999999999999999999.ndjson",
    "0195505e-aaaa-7000-8000-0000000000AA-00000000000000000042.ndjson",
    "0195505e.aaaa-7000-8000-0000000000aa-00000000000000000042.ndjson",
    "0195505e-aaaa-7000-8000-0000000000aa_00000000000000000042.ndjson",
    "0195505e-aaaa-7000-8000-0000000000토0000000000000000042.ndjson",
])
func `any other name is none`(name: String) {
    #expect(SegmentName(parsing: name) == nil)
    #expect(!SegmentName.begins(name) || name.hasSuffix(".new"))
}

@Test func `the segments of a folder come sorted and alone`() throws {
    let disk = FaultyFiles()
    try disk.createDirectory("/spool")
    let other = "0195505e-aaaa-7000-8000-0000000000ab"
    let names = [(other, 1), (writerID, 10), (writerID, 9)].map {
        SegmentName(writer: $0.0, firstSequence: UInt64($0.1))
    }
    for name in names { disk.place("/spool/\(name)", []) }
    disk.place("/spool/install.json", [])
    #expect(try SpoolReader.segments(in: "/spool", on: disk) == [names[2], names[1], names[0]])
}

@Test(arguments: [
    ("", 0), ("a", 1), ("\n", 0), ("a\n", 0), ("a\nb", 1), ("a\n\nbc", 2),
    ("a\n" + String(repeating: "x", count: 200_000), 200_000), (String(repeating: "x", count: 65_536), 65_536),
    (String(repeating: "x", count: 65_536) + "\n", 0), ("\n" + String(repeating: "x", count: 65_536), 65_536),
])
func `a torn tail is what follows the last line end`(text: String, byteCount: Int) throws {
    let disk = FaultyFiles()
    disk.place("/file", Array(text.utf8))
    let file = try disk.open("/file", .read)
    #expect(try SpoolReader.tornByteCount(of: file, byteCount: text.utf8.count, on: disk) == byteCount)
}
