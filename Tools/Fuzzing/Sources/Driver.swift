internal import WaybillSystem

/// libFuzzer's own `main`: reads the options on the command line and calls back with one input after another.
@_silgen_name("LLVMFuzzerRunDriver")
private func runFuzzer(
    _ argumentCount: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ callback: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

private let chosen: FuzzTarget = {
    let name = ProcessEnvironment["WAYBILL_FUZZ_TARGET"] ?? ""
    guard let target = FuzzTarget.all.first(where: { $0.name == name }) else {
        let names = FuzzTarget.all.map(\.name).joined(separator: " ")
        fatalError("WAYBILL_FUZZ_TARGET is \"\(name)\"; the targets are: \(names)")
    }
    return target
}()

/// `WAYBILL_FUZZ_TARGET=json fuzz [options of libFuzzer] [directories of inputs]`; `Tools/fuzz` calls it.
@main
enum Driver {
    static func main() {
        var argumentCount = CommandLine.argc
        var arguments = CommandLine.unsafeArgv
        _ = runFuzzer(&argumentCount, &arguments) { start, byteCount in
            do {
                try chosen.run(Array(UnsafeBufferPointer(start: start, count: byteCount)))
            } catch {
                fatalError("\(chosen.name): \(error)")
            }
            return 0
        }
    }
}
