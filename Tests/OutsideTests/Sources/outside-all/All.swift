import Logging
import Waybill
import WaybillDispatch
import WaybillLogging

/// What an app does with the products that pull in packages.
@main
struct All {
    static func main() async throws {
        let waybill = try WaybillClient(
            .init(
                spool: CommandLine.arguments[1], environment: .dev, bundle: "com.example.outside", version: "1.0",
                build: "1"))
        Self.log(to: waybill)
        try await Self.dispatch(CommandLine.arguments[1])
        print("outside: \(waybill.counters.stored) log calls stored, the dispatcher's among them; no receiver found")
    }

    static func log(to waybill: WaybillClient) {
        var options = LogBridge.Options()
        options.minimumLevel = .debug
        options.privacy = .unlessPublic
        options.includesLocation = true
        let bridge = LogBridge(waybill, options)
        LoggingSystem.bootstrap { label in WaybillLogHandler(label: label, bridge: bridge) }
        let logger = Logger(label: "outside")
        logger.info(
            "signed in", metadata: ["user": "\("u-1", privacy: .private)", "method": "\("mail", privacy: .public)"])
        precondition(bridge.counters.cutTexts == 0 && waybill.counters.stored == 1)
    }

    static func dispatch(_ spool: String) async throws(DispatchFailure) {
        var configuration = Dispatcher.Configuration(
            spool: spool, receivers: ["127.0.0.1:1"], mode: .manual, security: .plain, token: "secret")
        configuration.patience = .milliseconds(200)
        configuration.finished = { result in print("\(result)") }
        let dispatcher = try Dispatcher(configuration)
        switch await dispatcher.flush() {
        case .failed(let failure): precondition(failure.code == .unreachable, "\(failure)")
        case .delivered(let count, let remaining): preconditionFailure("delivered \(count), \(remaining) remain")
        case .nothingToSend: preconditionFailure("an event waits")
        }
        await dispatcher.drain(until: .now + .milliseconds(300))
        await dispatcher.stop()
    }
}
