import Testing
import WaybillEvent
import WaybillSystem

private func timestamp(_ milliseconds: Int64) -> String {
    var timestamp = Timestamp()
    var line = LineBuffer()
    timestamp.append(milliseconds, to: &line)
    return String(decoding: line.bytes, as: UTF8.self)
}

@Test(arguments: [
    (Int64(0), "1970-01-01T00:00:00.000Z"), (-1, "1970-01-01T00:00:00.000Z"),
    (951_782_399_999, "2000-02-28T23:59:59.999Z"), (951_782_400_000, "2000-02-29T00:00:00.000Z"),
    (951_868_800_000, "2000-03-01T00:00:00.000Z"), (1_740_820_459_003, "2025-03-01T09:14:19.003Z"),
    (1_704_067_199_001, "2023-12-31T23:59:59.001Z"), (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
    (253_402_300_799_999, "9999-12-31T23:59:59.999Z"), (.max, "9999-12-31T23:59:59.999Z"),
])
func `a time is its RFC 3339 text`(milliseconds: Int64, expected: String) {
    #expect(timestamp(milliseconds) == expected)
}

@Test func `the second that is kept is never another's`() {
    var generator = SeededGenerator(seed: 1)
    var kept = Timestamp()
    var milliseconds: Int64 = 1_740_820_459_003
    for _ in 0..<2000 {
        milliseconds += Int64(generator.next() % 3000) - 1000
        var line = LineBuffer()
        kept.append(milliseconds, to: &line)
        #expect(String(decoding: line.bytes, as: UTF8.self) == timestamp(milliseconds))
    }
}

@Test func `an id says its time, version and variant`() {
    var ids = UniqueIDSequence()
    let first = ids.next(at: 0x0195_50FC_2DFB, random: 0xFFFF_FFFF_FFFF_FFFF)
    #expect(first.text == "019550fc-2dfb-77ff-bfff-ffffffffffff")
    let second = ids.next(at: 0x0195_50FC_2DFB, random: 0)
    #expect(second.text == "019550fc-2dfb-7800-8000-000000000000")
    var generator = SeededGenerator(seed: 1)
    let random = UniqueID.random(&generator).text
    #expect(random.dropFirst(14).first == "4")
    #expect("89ab".contains(random.dropFirst(19).first ?? " "))
}

@Test func `every hexadecimal digit is right in every place`() {
    for shift in stride(from: 0, to: 64, by: 4) {
        for digit in 0..<UInt64(16) {
            let id = UniqueID(high: digit << UInt64(shift), low: ~(digit << UInt64(shift)))
            let expected = Hexadecimal.text(id.high, digitCount: 16) + Hexadecimal.text(id.low, digitCount: 16)
            #expect(id.text.filter { $0 != "-" } == expected)
        }
    }
}

@Test func `ids rise strictly whatever the clock does`() {
    var generator = SeededGenerator(seed: 7)
    var ids = UniqueIDSequence()
    var last = ""
    var milliseconds: Int64 = 1_740_820_459_003
    for index in 0..<20_000 {
        // Standing still past 4096 ids, then jumping about.
        if index > 10_000 { milliseconds += Int64(generator.next() % 2000) - 1000 }
        let id = ids.next(at: milliseconds, random: generator.next()).text
        #expect(last < id)
        last = id
    }
}
