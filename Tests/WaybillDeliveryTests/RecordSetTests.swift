import Testing

@testable import WaybillDelivery

@Suite struct RecordSetTests {
    @Test(arguments: [[], [0], [3, 4], [0, 1, 2, 7, 9, 10], Array(0..<600)])
    func `text gives the same records back`(numbers: [Int]) {
        let records = RecordSet(numbers)
        #expect(RecordSet(text: records.text, below: 600) == records)
    }

    @Test(arguments: ["", "1,", "-1", "2-1", "3,2", "1-2-3", "5,5", "0-4", "x", "99999999999999999999"])
    func `what is no ascending list below the bound is refused`(text: String) {
        #expect(RecordSet(text: text, below: 4) == nil)
    }

    @Test func `halves and chunks keep every record and the order`() {
        let records = RecordSet([1, 2, 5, 8, 9])
        #expect(records.halves == (RecordSet([1, 2, 5]), RecordSet([8, 9])))
        #expect(records.chunks(of: 2) == [RecordSet([1, 2]), RecordSet([5, 8]), RecordSet([9])])
        #expect(RecordSet([4]).halves == (RecordSet([4]), RecordSet()))
        #expect(records.members(at: [0, 3, 9]) == RecordSet([1, 8]))
    }
}
