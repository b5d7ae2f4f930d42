/// How much memory the ids of a day may take, and where they go past it.
package struct IDBudget: Sendable {
    /// 64 MiB are the ids of about a million lines.
    package var byteCount = 64 << 20
    /// A folder for a file without a name.
    package var folder = "/tmp"
}

/// The ids of a folder's lines that are in memory, so that each counts once.
struct LineIDs {
    private let byteCountMax: Int
    private var table = StringTable()
    /// The row of each id in ``table``.
    private var rowOfID: [Int32] = [-1]
    /// The number in ``table`` of each row's id, as long as none was taken out; 0 for none.
    private var idOfRow: [UInt32] = []
    private(set) var rowCount = 0
    private var isWhole = true
    /// The place of each row's id in the order of all ids, once it is known; 0 for none.
    var places: [UInt32] = []

    init(byteCountMax: Int) {
        self.byteCountMax = byteCountMax
    }

    /// What each id takes besides its bytes: its end, two slots, and its row twice.
    private static var entryByteCount: Int { 32 }

    var isEmpty: Bool { self.table.count == 1 }
    var isOverBudget: Bool {
        self.table.byteCount + Self.entryByteCount * self.table.count > self.byteCountMax && !self.isEmpty
    }

    /// The row that has an id; `nil` if it is new and belongs to the next row.
    ///
    /// An id that was taken out is new once more.
    mutating func row(of id: UnsafeRawBufferPointer) -> Int? {
        let number = self.table.intern(id)
        if Int(number) < self.rowOfID.count { return Int(self.rowOfID[Int(number)]) }
        self.rowOfID.append(Int32(self.rowCount))
        self.addRow(number)
        return nil
    }

    mutating func addRowWithoutID() { self.addRow(0) }

    private mutating func addRow(_ number: UInt32) {
        self.rowCount += 1
        if self.isWhole { self.idOfRow.append(number) }
    }

    /// Takes out all ids, in order.
    ///
    /// - Parameter body: called with each id as ``StringTable`` stores it, and its row.
    mutating func takeAll<Failure: Error>(
        _ body: (UnsafeRawBufferPointer, Int32) throws(Failure) -> Void
    ) throws(Failure) {
        for number in self.table.ordered() {
            try self.table.withStored(number) { (id) throws(Failure) in try body(id, self.rowOfID[Int(number)]) }
        }
        self.table = StringTable()
        self.rowOfID = [-1]
        self.idOfRow = []
        self.isWhole = false
    }

    var order: IDOrder {
        self.places.isEmpty ? IDOrder(numbers: self.idOfRow, table: self.table) : IDOrder(numbers: self.places)
    }
}

/// The order of rows by their ids.
struct IDOrder {
    /// For each row the number of its id; 0 for none.
    let numbers: [UInt32]
    /// `nil` if the numbers are in the order of the ids.
    var table: StringTable?

    /// Whether a row comes before another: by id, and without or with the same one as they were read.
    func isOrdered(_ left: Int32, _ right: Int32) -> Bool {
        let (a, b) = (self.numbers[Int(left)], self.numbers[Int(right)])
        if a == b { return left < right }
        if let table { return table.isOrdered(a, b) }
        // No id comes last.
        return b == 0 || (a != 0 && a < b)
    }
}
