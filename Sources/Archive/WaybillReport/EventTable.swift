internal import WaybillSystem

/// All rows that are kept, in order, with people and days.
///
///     day tables ─▶ one row after the other ─▶ who each row's person is ─▶ when each person was seen first
///
/// People are made from everything that is kept, not from the range: a range that begins later knows them already.
struct EventTable: Sendable {
    private(set) var rows: [EventRow] = []
    private(set) var values: [UInt32] = []
    private(set) var strings = StringTable()
    private(set) var catalogue: [CatalogueKey: CatalogueEntry] = [:]
    /// For each person, the first day on which they were active, or `Int32.max`.
    ///
    /// Person 0 does not exist.
    private(set) var firstDays: [Int32] = [.max]
    /// For each person, the time of their first event.
    private(set) var firstTimes: [Int64] = [.max]
    private(set) var repeatCount = 0
    private(set) var strayLineCount = 0
    private(set) var unexplainedByteCount = 0
    /// Whether the folders' rows overlap in time, so that the whole must be sorted.
    private var isMixed = false
    let width: Int

    /// - Parameter width: how many values each row has.
    init(width: Int) {
        self.width = width
    }

    var personCount: Int { self.firstDays.count - 1 }

    /// The value of a row for a property.
    func value(_ row: Int, _ property: Int) -> UInt32 { self.values[row * self.width + property] }

    // MARK: Adding days

    /// Adds a folder's rows; folders come in the order of their days.
    ///
    /// - Parameter share: how much of all folders' bytes have come with it, by which it makes room for the rest.
    mutating func add(_ table: DayTable, share: Double) {
        let count = self.rows.count + table.rows.count
        if count > self.rows.capacity {
            // A day says little about the next ones.
            let expected = Int(Double(count) / min(1, max(share, 0.25)) * 1.05) + 1
            self.rows.reserveCapacity(expected)
            self.values.reserveCapacity(expected * self.width)
        }
        let numbers = self.strings.absorb(table.strings)
        if let last = self.rows.last, let first = table.rows.first, first.time <= last.time { self.isMixed = true }
        for var row in table.rows {
            row.renumber { numbers[Int($0)] }
            self.rows.append(row)
        }
        self.values.append(contentsOf: table.values.lazy.map { numbers[Int($0)] })
        for (key, entry) in table.catalogue {
            let renumbered = CatalogueKey(
                name: numbers[Int(key.name)], kind: key.kind, property: numbers[Int(key.property)], type: key.type,
                version: numbers[Int(key.version)])
            self.catalogue[renumbered, default: CatalogueEntry()].add(entry)
        }
        self.repeatCount += table.repeatCount
        self.strayLineCount += table.strayLineCount
        self.unexplainedByteCount += table.unexplainedByteCount
    }

    /// Orders the rows and finds their people; called once, after the last day.
    ///
    /// - Parameter traits: the properties that are traits.
    mutating func finish(traits: [Int]) {
        if self.isMixed { self.sort() }
        self.findPeople()
        self.findFirstDays()
        for property in traits { self.carry(property) }
    }

    private mutating func sort() {
        let rows = self.rows
        let strings = self.strings
        let order = rows.inOrder(Array(0..<Int32(rows.count))) { a, b in
            let left = rows[Int(a)]
            let right = rows[Int(b)]
            if left.writer != right.writer { return strings.isOrdered(left.writer, right.writer) }
            if left.sequence != right.sequence { return left.orderedSequence < right.orderedSequence }
            // Equal rows are of one folder and were put in order there.
            return a < b
        }
        var sorted = DayTable(rows: rows, values: self.values)
        sorted.reorder(order)
        self.rows = sorted.rows
        self.values = sorted.values
    }

    // MARK: People

    /// Gives each row its person: the user it names; else the next user on the same install, else the last one before,
    /// else the install itself.
    private mutating func findPeople() {
        let count = self.strings.count
        var lastUsers = [UInt32](repeating: 0, count: count)
        for row in self.rows where row.user != 0 && row.install != 0 { lastUsers[Int(row.install)] = row.user }
        var nextUsers = [UInt32](repeating: 0, count: count)
        var users = [UInt32](repeating: 0, count: self.rows.count)
        for index in self.rows.indices.reversed() {
            let row = self.rows[index]
            if row.user != 0 {
                users[index] = row.user
                if row.install != 0 { nextUsers[Int(row.install)] = row.user }
            } else if row.install != 0 {
                let next = nextUsers[Int(row.install)]
                users[index] = next != 0 ? next : lastUsers[Int(row.install)]
            }
        }
        // A user and an install of the same name are two people.
        var peopleOfUsers = [UInt32](repeating: 0, count: count)
        var peopleOfInstalls = [UInt32](repeating: 0, count: count)
        var person: UInt32 = 0
        for index in self.rows.indices {
            let user = Int(users[index])
            let install = Int(self.rows[index].install)
            if user != 0 {
                if peopleOfUsers[user] == 0 {
                    person += 1
                    peopleOfUsers[user] = person
                }
                self.rows[index].person = peopleOfUsers[user]
            } else if install != 0 {
                if peopleOfInstalls[install] == 0 {
                    person += 1
                    peopleOfInstalls[install] = person
                }
                self.rows[index].person = peopleOfInstalls[install]
            }
        }
        self.firstDays = [Int32](repeating: .max, count: Int(person) + 1)
        self.firstTimes = [Int64](repeating: .max, count: Int(person) + 1)
    }

    private mutating func findFirstDays() {
        for row in self.rows where row.isActive {
            let person = Int(row.person)
            self.firstDays[person] = min(self.firstDays[person], row.day)
            self.firstTimes[person] = min(self.firstTimes[person], row.time)
        }
    }

    /// Lets each row have its person's newest value of a trait.
    private mutating func carry(_ property: Int) {
        var newest = [UInt32](repeating: 0, count: self.personCount + 1)
        for (index, row) in self.rows.enumerated() {
            let place = index * self.width + property
            if self.values[place] != 0 { newest[Int(row.person)] = self.values[place] }
            self.values[place] = row.person == 0 ? 0 : newest[Int(row.person)]
        }
    }
}

extension EventRow {
    /// Replaces the numbers of its texts.
    fileprivate mutating func renumber(_ number: (UInt32) -> UInt32) {
        self.dwellScreen = number(self.dwellScreen)
        self.writer = number(self.writer)
        self.name = number(self.name)
        self.screen = number(self.screen)
        self.session = number(self.session)
        self.user = number(self.user)
        self.install = number(self.install)
        self.version = number(self.version)
        self.systemVersion = number(self.systemVersion)
        self.agent = number(self.agent)
    }
}
