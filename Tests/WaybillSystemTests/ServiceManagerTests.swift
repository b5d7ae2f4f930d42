import Testing
import WaybillSystem
import WaybillTesting

@Suite struct ServiceManagerTests {
    /// What was sent, and how long each sending might take.
    private struct Sent {
        var texts: [String] = []
        var sockets: Set<String> = []
        var patience: [Duration] = []
    }

    private static func manager(_ variables: [String: String], _ sent: Lock<Sent>) -> ServiceManager {
        ServiceManager(environment: { variables[$0] }, processID: 42) { socket, text, patience in
            sent.withLock {
                $0.texts.append(text)
                $0.sockets.insert(socket)
                $0.patience.append(patience)
            }
        }
    }

    @Test(arguments: ["/run/systemd/notify", "@/org/freedesktop/systemd1/notify"])
    func `each notice is one datagram in the manager's words`(socket: String) {
        let sent = Lock(Sent())
        let manager = Self.manager(["NOTIFY_SOCKET": socket], sent)
        manager.tell(.ready, .status("listening on [::1]:4390\nand so on"))
        manager.tell(.reloading(at: MonotonicTime(nanoseconds: 1_234_567_891)))
        manager.tell(.alive)
        manager.tell(.stopping)
        #expect(
            sent.withLock { $0.texts } == [
                "READY=1\nSTATUS=listening on [::1]:4390 and so on", "RELOADING=1\nMONOTONIC_USEC=1234567",
                "WATCHDOG=1",
                "STOPPING=1",
            ])
        #expect(sent.withLock { $0.sockets } == [socket])
        // The loop that must not hang does not wait for the manager.
        #expect(sent.withLock { $0.patience } == [.seconds(1), .seconds(1), .zero, .seconds(1)])
    }

    @Test(arguments: [[:], ["NOTIFY_SOCKET": ""], ["NOTIFY_SOCKET": "vsock:2:1234"]])
    func `without a socket that it can reach, nothing is sent`(variables: [String: String]) {
        let sent = Lock(Sent())
        var variables = variables
        variables["WATCHDOG_USEC"] = "3000000"
        let manager = Self.manager(variables, sent)
        manager.tell(.ready)
        #expect(sent.withLock { $0.texts } == [])
        #expect(manager.heartbeatInterval == nil)
    }

    @Test(arguments: [
        (["WATCHDOG_USEC": "3000000"], Duration.seconds(1)),
        (["WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "42"], .seconds(1)),
        (["WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "43"], nil), (["WATCHDOG_USEC": "0"], nil),
        (["WATCHDOG_USEC": "-5"], nil), (["WATCHDOG_USEC": "soon"], nil),
        (["WATCHDOG_USEC": "18446744073709551615"], nil), ([:], nil),
    ])
    func `a heartbeat is due three times in the watchdog's time`(variables: [String: String], interval: Duration?) {
        let sent = Lock(Sent())
        let all = variables.merging(["NOTIFY_SOCKET": "/n"]) { $1 }
        #expect(Self.manager(all, sent).heartbeatInterval == interval)
    }

    @Test func `a loop that turns beats in time, and one that hangs does not`() {
        let sent = Lock(Sent())
        let clock = ManualClock()
        let manager = Self.manager(["NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "30000000"], sent)
        var heartbeat = Heartbeat(manager, clock: clock)
        let start = clock.monotonicTime()
        heartbeat.beat()
        heartbeat.beat()
        #expect(sent.withLock { $0.texts } == ["WATCHDOG=1"])
        #expect(heartbeat.wake(before: nil) == start + .seconds(10))
        #expect(heartbeat.wake(before: start + .seconds(3)) == start + .seconds(3))
        #expect(heartbeat.wake(before: start + .seconds(11)) == start + .seconds(10))
        #expect(heartbeat.rest(atMost: .seconds(300)) == .seconds(10))
        #expect(heartbeat.rest(atMost: .seconds(2)) == .seconds(2))
        // Nothing beats by itself, however long it takes.
        clock.advance(milliseconds: 60_000)
        #expect(sent.withLock { $0.texts.count } == 1)
        #expect(heartbeat.rest(atMost: .seconds(300)) == .zero)
        heartbeat.beat()
        #expect(sent.withLock { $0.texts.count } == 2)
        #expect(heartbeat.wake(before: nil) == start + .seconds(70))
    }

    @Test func `without a watchdog a loop rests as long as it likes`() {
        var heartbeat = Heartbeat(.none, clock: ManualClock())
        heartbeat.beat()
        #expect(heartbeat.wake(before: nil) == nil)
        #expect(heartbeat.rest(atMost: .seconds(300)) == .seconds(300))
    }
}
