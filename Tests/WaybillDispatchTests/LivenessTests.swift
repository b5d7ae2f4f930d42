import Testing
import WaybillAgent
import WaybillSystem

@Suite struct LivenessTests {
    private static func time(_ seconds: Double) -> MonotonicTime {
        MonotonicTime(nanoseconds: Int64(seconds * 1_000_000_000))
    }

    /// A receiver that keeps silent connections for 90 s, and was heard last at 0.
    private static func ready() -> Liveness {
        var liveness = Liveness(at: Self.time(0))
        liveness.becameReady(idle: .seconds(90))
        liveness.heard(at: Self.time(0))
        return liveness
    }

    /// What a driver does second by second: it sends each `PING` that is asked for, and asks the kernel, which says
    /// `peer` of the time.
    ///
    /// - Returns: when each step came.
    private static func drive(
        _ liveness: inout Liveness, from first: Int = 1, through last: Int, isInFlight: Bool,
        _ peer: (_ second: Int) -> TCPPeer?
    ) -> [(second: Int, step: Liveness.Step)] {
        var steps: [(second: Int, step: Liveness.Step)] = []
        for second in first...last {
            let now = Self.time(Double(second))
            var next = liveness.step(isInFlight: isInFlight, at: now)
            if next == .askKernel {
                next = peer(second).flatMap { liveness.weigh($0, isInFlight: isInFlight, at: now) }
            }
            guard let step = next else { continue }
            steps.append((second, step))
            if step == .ping { liveness.sent(at: now) }
            if case .close = step { break }
        }
        return steps
    }

    /// A host that is gone since 0: everything that was sent then is still unacknowledged.
    private static func gone(_ second: Int) -> TCPPeer {
        TCPPeer(unacknowledgedByteCount: 1_000_000, unansweredTryCount: 6, silence: .seconds(second))
    }

    // MARK: Dead

    @Test func `a host that acknowledges nothing for 15 s is dead`() {
        var liveness = Self.ready()
        liveness.sentBatch(isAlone: true, at: Self.time(0))
        let steps = Self.drive(&liveness, through: 100, isInFlight: true, Self.gone)
        #expect(steps.map(\.second) == [15])
        #expect(steps.map(\.step) == [.close(after: .seconds(15))])
    }

    @Test func `what was sent late has 15 s of its own`() {
        var liveness = Self.ready()
        #expect(Self.drive(&liveness, through: 20, isInFlight: false, Self.gone).isEmpty)
        liveness.sentBatch(isAlone: true, at: Self.time(20))
        let steps = Self.drive(&liveness, from: 21, through: 100, isInFlight: true) {
            TCPPeer(unacknowledgedByteCount: 300, unansweredTryCount: 5, silence: .seconds($0))
        }
        #expect(steps.map(\.second) == [35])
    }

    @Test func `a connection at rest is dead 15 s after its PING`() {
        var liveness = Self.ready()
        let steps = Self.drive(&liveness, through: 100, isInFlight: false) {
            TCPPeer(unacknowledgedByteCount: 7, unansweredTryCount: 5, silence: .seconds($0))
        }
        #expect(steps.map(\.second) == [30, 45])
        #expect(steps.map(\.step) == [.ping, .close(after: .seconds(45))])
    }

    @Test func `a batch that the host took before it died is followed by a PING that it does not acknowledge`() {
        var liveness = Self.ready()
        liveness.sentBatch(isAlone: true, at: Self.time(0))
        let steps = Self.drive(&liveness, through: 100, isInFlight: true) {
            $0 <= 5
                ? TCPPeer(unacknowledgedByteCount: 0, unansweredTryCount: 0, silence: .seconds($0))
                : TCPPeer(unacknowledgedByteCount: 7, unansweredTryCount: 6, silence: .seconds($0))
        }
        #expect(steps.map(\.second) == [5, 15])
        #expect(steps.map(\.step) == [.ping, .close(after: .seconds(15))])
    }

    // MARK: Alive

    @Test func `a host that answers keeps the connection for idle_ms`() {
        let alive: [(tries: Int, silence: Duration, name: String)] = [
            (0, .zero, "it takes a little now and then"),
            (0, .seconds(60), "it answers probes that are far apart"),
            (1, .seconds(60), "one probe is on its way, or lost"),
            (4, .milliseconds(14_999), "a slow link loses much"),
        ]
        for (tries, silence, name) in alive {
            let peer = TCPPeer(unacknowledgedByteCount: 9, unansweredTryCount: tries, silence: silence)
            var liveness = Self.ready()
            liveness.sentBatch(isAlone: true, at: Self.time(0))
            let steps = Self.drive(&liveness, through: 200, isInFlight: true) { _ in peer }
            #expect(steps.map(\.second) == [30, 60, 90], "\(name)")
            #expect(steps.last?.step == .close(after: .seconds(90)), "\(name)")
        }
    }

    @Test func `without a kernel to ask idle_ms holds`() {
        var liveness = Self.ready()
        liveness.sentBatch(isAlone: true, at: Self.time(0))
        let steps = Self.drive(&liveness, through: 200, isInFlight: true) { _ in nil }
        #expect(steps.map(\.second) == [30, 60, 90])
        #expect(steps.map(\.step) == [.ping, .ping, .close(after: .seconds(90))])
    }

    @Test func `a receiver that is heard every few seconds is never doubted`() {
        var liveness = Self.ready()
        for second in 1...600 {
            let now = Self.time(Double(second))
            liveness.sentBatch(isAlone: second == 1, at: now)
            if second.isMultiple(of: 4) { liveness.heard(at: now) }
            #expect(liveness.step(isInFlight: true, at: now) == nil)
            #expect(liveness.weigh(Self.gone(second), isInFlight: true, at: now) == nil)
        }
    }

    @Test func `what the kernel said before something was heard does not count`() {
        var liveness = Self.ready()
        liveness.sentBatch(isAlone: true, at: Self.time(0))
        #expect(liveness.step(isInFlight: true, at: Self.time(15)) == .askKernel)
        liveness.heard(at: Self.time(15))
        #expect(liveness.weigh(Self.gone(15), isInFlight: true, at: Self.time(15)) == nil)
    }

    @Test func `no one asks the kernel about a connection that owes nothing`() {
        var liveness = Self.ready()
        for second in 1..<30 { #expect(liveness.step(isInFlight: false, at: Self.time(Double(second))) == nil) }
        #expect(liveness.weigh(Self.gone(29), isInFlight: false, at: Self.time(29)) == nil)
        #expect(liveness.nextStep(isInFlight: false) == Self.time(30))
    }

    // MARK: The protocol's times

    @Test func `READY may take 20 s, whatever the kernel says`() {
        var liveness = Liveness(at: Self.time(0))
        liveness.sent(at: Self.time(1))
        #expect(liveness.nextStep(isInFlight: false) == Self.time(20))
        #expect(liveness.weigh(Self.gone(19), isInFlight: false, at: Self.time(19)) == nil)
        #expect(liveness.step(isInFlight: false, at: Self.time(19)) == nil)
        #expect(liveness.step(isInFlight: false, at: Self.time(20)) == .close(after: .seconds(20)))
    }

    @Test func `a third of idle_ms without sending is ended by a PING`() {
        var liveness = Self.ready()
        liveness.sent(at: Self.time(10))
        liveness.heard(at: Self.time(10))
        #expect(liveness.nextStep(isInFlight: false) == Self.time(40))
        #expect(liveness.step(isInFlight: false, at: Self.time(39.9)) == nil)
        #expect(liveness.step(isInFlight: false, at: Self.time(40)) == .ping)
    }

    @Test func `the next step is never due at once after a step was taken`() {
        var liveness = Self.ready()
        liveness.sentBatch(isAlone: true, at: Self.time(0))
        var now = Self.time(0)
        while true {
            let step = liveness.step(isInFlight: true, at: now)
            if case .close = step { break }
            if step == .ping { liveness.sent(at: now) }
            let next = liveness.nextStep(isInFlight: true)
            // A PING may be due together with a question; each comes once.
            if liveness.step(isInFlight: true, at: now) == nil { #expect(next > now) }
            now = max(now, next)
        }
        #expect(now == Self.time(90))
    }

    @Test func `of several PINGs the last is answered, once`() {
        var liveness = Self.ready()
        #expect(liveness.takePing() == nil)
        liveness.heardPing(7)
        liveness.heardPing(8)
        #expect(liveness.takePing() == 8)
        #expect(liveness.takePing() == nil)
    }

    // MARK: What is told

    @Test func `the disk is blamed only while the receiver is heard`() {
        var liveness = Self.ready()
        liveness.sentBatch(isAlone: true, at: Self.time(0))
        liveness.heard(at: Self.time(50))
        #expect(liveness.report(isInFlight: true, at: Self.time(60)) == nil)
        #expect(liveness.report(isInFlight: true, at: Self.time(61)) == .unacknowledged(for: .seconds(61)))
        #expect(liveness.isStalled(isInFlight: true, at: Self.time(61)))
        liveness.acknowledged(at: Self.time(70))
        #expect(liveness.report(isInFlight: true, at: Self.time(70)) == .resumed)
        #expect(!liveness.isStalled(isInFlight: true, at: Self.time(70)))
    }

    @Test func `where nothing at all was heard the network or the host is blamed`() {
        var liveness = Self.ready()
        liveness.sentBatch(isAlone: true, at: Self.time(0))
        #expect(liveness.report(isInFlight: true, at: Self.time(61)) == .unheard(for: .seconds(61)))
    }

    @Test func `the end of a connection is no acknowledgement`() {
        var liveness = Self.ready()
        liveness.acknowledged(at: Self.time(1))
        liveness.sentBatch(isAlone: true, at: Self.time(1))
        #expect(liveness.report(isInFlight: true, at: Self.time(62)) != nil)
        liveness.reset(at: Self.time(63))
        #expect(liveness.report(isInFlight: false, at: Self.time(63)) == nil)
        #expect(liveness.acknowledgedAt == Self.time(1))
        #expect(!liveness.isStalled(isInFlight: true, at: Self.time(100)))
    }
}
