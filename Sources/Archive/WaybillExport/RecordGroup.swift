internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// A record that several events share, until it is full or the next event does not belong in it.
struct RecordGroup: ~Copyable {
    private(set) var output = ByteBuilder(capacity: 1 << 17)
    private var tail = ByteBuilder()
    private var headByteCount = 0
    private(set) var ids = ByteBuilder()
    private(set) var eventCount = 0
    private(set) var env = DeploymentEnvironment.dev
    private(set) var day = CalendarDay(daysSince1970: 0)
    private(set) var oldest = WallTime(milliseconds: 0)
    private(set) var fixes = FixCounts()
    private(set) var late48HoursCount = 0
    private(set) var late24HoursCount = 0
    private(set) var firstIDByteCount = 0
    private(set) var lastIDByteCount = 0

    init() {}

    /// Whether an event can be added without exceeding a limit or mixing events that must stay separate.
    func accepts(
        _ draft: borrowing Draft, _ fate: EventFate, eventCountMax: Int, byteCountMax: Int
    ) -> Bool {
        guard !draft.startsGroup, self.eventCount < eventCountMax, self.env == fate.env, self.day == fate.day else {
            return false
        }
        let head = UnsafeRawBufferPointer(rebasing: self.output.bytes[..<self.headByteCount])
        guard JSONText.equals(head, draft.head.output.bytes) else { return false }
        // For a comma before the event and a line feed after the tail.
        return self.output.count + 1 + draft.json.output.count + self.tail.count + 1 <= byteCountMax
    }

    /// Starts a record with the draft's head and tail.
    mutating func open(_ draft: borrowing Draft, _ fate: EventFate) {
        self.removeAll()
        self.output.append(draft.head.output.bytes)
        self.headByteCount = self.output.count
        self.tail.append(draft.tail.output.bytes)
        self.env = fate.env
        self.day = fate.day
        self.oldest = fate.time
    }

    /// Adds an event.
    mutating func append(_ draft: borrowing Draft, _ fate: EventFate) {
        if self.eventCount > 0 {
            self.output.append(UInt8(ascii: ","))
            self.ids.append(UInt8(ascii: ","))
        } else {
            self.firstIDByteCount = fate.id.count
        }
        self.output.append(draft.json.output.bytes)
        self.ids.append(fate.id)
        self.lastIDByteCount = fate.id.count
        self.eventCount += 1
        self.oldest = min(self.oldest, fate.time)
        self.fixes.add(draft.fixes)
        self.late48HoursCount += fate.isLate48Hours ? 1 : 0
        self.late24HoursCount += fate.isLate24Hours ? 1 : 0
    }

    /// Appends the tail and the terminator.
    mutating func close(_ terminator: StaticString) {
        self.output.append(self.tail.bytes)
        self.output.append(terminator)
    }

    mutating func removeAll() {
        self.output.removeAll()
        self.tail.removeAll()
        self.ids.removeAll()
        self.eventCount = 0
        self.fixes = FixCounts()
        self.late48HoursCount = 0
        self.late24HoursCount = 0
    }
}

/// Where an event belongs, whatever its outcome.
struct EventFate {
    let id: UnsafeRawBufferPointer
    let env: DeploymentEnvironment
    let day: CalendarDay
    let time: WallTime
    let isLate48Hours: Bool
    let isLate24Hours: Bool
}
