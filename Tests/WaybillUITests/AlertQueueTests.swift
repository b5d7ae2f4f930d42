import Testing
import Waybill
import WaybillUI
import WaybillSystem

extension AlertQueue {
    fileprivate mutating func add(_ name: String) {
        self.add(EventAlert(title: name, message: "of \(name)"), label: name)
    }

    /// Shows and closes all there is.
    fileprivate mutating func drain() -> [EventAlert] {
        var alerts: [EventAlert] = []
        while let alert = self.next() {
            alerts.append(alert)
            self.presented()
            self.dismissed()
        }
        return alerts
    }
}

private func alert(_ name: String) -> EventAlert { EventAlert(title: name, message: "of \(name)") }

@Test
func `alerts come one at a time, in the order of their events`() {
    var queue = AlertQueue()
    #expect(queue.next() == nil)
    for name in ["a", "b"] { queue.add(name) }
    #expect(queue.next() == alert("a"))
    queue.presented()
    #expect(queue.next() == nil)
    queue.dismissed()
    #expect(queue.next() == alert("b"))
}

@Test
func `an alert that could not be presented is offered again, and nothing else`() {
    var queue = AlertQueue()
    for name in ["a", "b"] { queue.add(name) }
    #expect(queue.next() == alert("a"))
    queue.dismissed()  // Nothing is shown.
    #expect(queue.next() == alert("a"))
    queue.presented()
    queue.presented()
    #expect(queue.next() == nil)
    queue.dismissed()
    #expect(queue.drain() == [alert("b")])
}

@Test
func `three alerts wait by themselves, and a fourth makes them one`() {
    var queue = AlertQueue()
    for name in ["a", "b", "c"] { queue.add(name) }
    var four = queue
    #expect(queue.waitingCount == 3)
    #expect(queue.drain() == [alert("a"), alert("b"), alert("c")])
    four.add("b")
    #expect(four.waitingCount == 1)
    four.add("d")
    #expect(four.drain() == [EventAlert(title: "5 events", message: "a\nb × 2\nc\nd")])
    four.add("e")
    #expect(four.drain() == [alert("e")])
}

@Test
func `what comes while an alert is shown is coalesced, the shown one is not in it`() {
    var queue = AlertQueue()
    queue.add("first")
    #expect(queue.next() == alert("first"))
    queue.presented()
    for _ in 0..<1000 { queue.add("tap") }
    queue.dismissed()
    #expect(queue.drain() == [EventAlert(title: "1000 events", message: "tap × 1000")])
}

@Test
func `a burst names twelve events and counts the others`() {
    var queue = AlertQueue()
    for index in 0..<15 { queue.add("e\(index)") }
    queue.add("e14")
    let lines = (0..<12).map { "e\($0)" } + ["and 4 others"]
    #expect(queue.drain() == [EventAlert(title: "16 events", message: lines.joined(separator: "\n"))])
}

/// Events in an alert: one, or the number in its title.
private func eventCount(_ alert: EventAlert) -> Int {
    alert.title.hasSuffix(" events") ? Int(alert.title.dropLast(" events".count)) ?? 0 : 1
}

@Test(arguments: 0..<UInt64(200))
func `every event is in exactly one alert, however they come`(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var queue = AlertQueue()
    var addedCount = 0
    var shownCount = 0
    for _ in 0..<300 {
        switch Int.random(in: 0..<4, using: &generator) {
        case 0, 1:
            queue.add("\(Int.random(in: 0..<20, using: &generator))")
            addedCount += 1
        case 2:
            if let alert = queue.next(), Bool.random(using: &generator) {
                shownCount += eventCount(alert)
                queue.presented()
            }
        default:
            queue.dismissed()
        }
        #expect(queue.waitingCount <= AlertQueue.waitingCountMax)
    }
    queue.dismissed()
    shownCount += queue.drain().reduce(0) { $0 + eventCount($1) }
    #expect(shownCount == addedCount)
}

@Test
func `an alert says an event's fields in their order`() {
    let event = storedEvent(
        .action, #""name":"moment_like","screen":"Feed","user":"u-1","data":{"z":"토스터","a":39900,"m":[1,2]}"#)
    #expect(
        EventAlert(event) == EventAlert(title: "moment_like", message: "screen: Feed\nz: 토스터\na: 39900\nm: [1,2]"))
}

@Test
func `an alert about the user says who it is and what changed`() {
    let event = storedEvent(.user, #""name":"set_user","user":"u-1","traits":{"tier":"PREMIUM","age":null}"#)
    #expect(EventAlert(event) == EventAlert(title: "set_user", message: "user: u-1\ntier: PREMIUM\nage: null"))
}

@Test
func `an alert's text is bounded`() {
    let fields = (0..<40).map { #""f\#($0)":"\#(String(repeating: "x", count: 500))""# }
    let alert = EventAlert(storedEvent(.event, #""name":"big","data":{\#(fields.joined(separator: ","))}"#))
    let lines = alert.message.split(separator: "\n")
    #expect(lines.count == 13)
    #expect(lines[0] == "f0: \(String(repeating: "x", count: 200))…")
    #expect(lines[12] == "and 28 more")
}

/// Keeps what its root presented, as view controllers do.
private final class Controller {
    var presented: Controller?
    var isAlert = false

    /// Controllers over one another, the root first.
    static func tower(_ count: Int) -> [Controller] {
        let tower = (0..<count).map { _ in Controller() }
        for (lower, upper) in zip(tower, tower.dropFirst()) { lower.presented = upper }
        return tower
    }
}

@Test(arguments: 1..<6)
func `an alert is presented on the topmost controller`(count: Int) {
    let tower = Controller.tower(count)
    let host = AlertHost.topmost(from: tower[0], presented: \.presented, canHost: { !$0.isAlert })
    #expect(host === tower[count - 1])
}

@Test(arguments: 0..<5)
func `an alert waits while any of the controllers is an alert or on its way out`(index: Int) {
    let tower = Controller.tower(5)
    tower[index].isAlert = true
    #expect(AlertHost.topmost(from: tower[0], presented: \.presented, canHost: { !$0.isAlert }) == nil)
}
