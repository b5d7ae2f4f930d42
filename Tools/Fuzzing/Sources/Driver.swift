internal import FuzzCosts
internal import WaybillSystem
internal import WaybillTestSupport

/// libFuzzer's own `main`: reads the options on the command line and calls back with one input after another.
@_silgen_name("LLVMFuzzerRunDriver")
private func runFuzzer(
    _ argumentCount: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ callback: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

/// Changes an input in libFuzzer's ways, which know what comparisons failed.
@_silgen_name("LLVMFuzzerMutate")
private func mutateAsFuzzer(_ bytes: UnsafeMutablePointer<UInt8>, _ byteCount: Int, _ byteCountMax: Int) -> Int

/// libFuzzer calls it for each input that it makes: `byteCount` bytes become at most `byteCountMax`.
@_cdecl("LLVMFuzzerCustomMutator")
public func mutateInput(
    _ bytes: UnsafeMutablePointer<UInt8>, _ byteCount: Int, _ byteCountMax: Int, _ seed: CUnsignedInt
) -> Int {
    // Where bytes are decisions, more of them say nothing new.
    let limit = chosen.shape.wrappers.isEmpty ? min(byteCountMax, chosen.byteCountMax) : byteCountMax
    if seed.isMultiple(of: 2) { return mutateAsFuzzer(bytes, min(byteCount, limit), limit) }
    var mutator = Mutator(chosen.shape, seed: UInt64(seed), byteCountMax: limit)
    let mutated = mutator.next(of: [Array(UnsafeBufferPointer(start: bytes, count: byteCount))])
    UnsafeMutableRawBufferPointer(start: bytes, count: byteCountMax).copyBytes(from: mutated)
    return mutated.count
}

private let chosen: FuzzTarget = {
    let name = ProcessEnvironment["WAYBILL_FUZZ_TARGET"] ?? ""
    guard let target = FuzzTarget.all.first(where: { $0.name == name }) else {
        let names = FuzzTarget.all.map(\.name).joined(separator: " ")
        fatalError("WAYBILL_FUZZ_TARGET is \"\(name)\"; the targets are: \(names)")
    }
    return target
}()

extension CostBound {
    /// - Throws: ``Violation`` if an input of that length cost too much.
    fileprivate func check(_ costs: fuzz_costs, byteCount: Int) throws {
        let steps = Int(costs.comparisons + costs.allocations + costs.allocated_byte_count)
        let stepCountMax = self.steps + self.stepsPerByte * byteCount
        let held = Int(costs.held_byte_count_max)
        let heldByteCountMax = self.heldByteCount + self.heldByteCountPerByte * byteCount
        try require(steps <= stepCountMax, "\(steps) steps for \(byteCount) bytes, \(stepCountMax) are allowed")
        try require(held <= heldByteCountMax, "\(held) bytes held for \(byteCount), \(heldByteCountMax) are allowed")
        fuzz_costs_note(CInt(steps * 100 / stepCountMax), CInt(held * 100 / heldByteCountMax))
    }
}

/// `WAYBILL_FUZZ_TARGET=json fuzz [options of libFuzzer] [directories of inputs]`; `Tools/fuzz` calls it.
@main
enum Driver {
    static func main() {
        var argumentCount = CommandLine.argc
        var arguments = CommandLine.unsafeArgv
        _ = runFuzzer(&argumentCount, &arguments) { start, byteCount in
            let input = Array(UnsafeBufferPointer(start: start, count: byteCount))
            do {
                fuzz_costs_restart()
                #if PLANTED
                    PlantedTape.read(input)
                #endif
                try chosen.run(input)
                try chosen.bound.check(fuzz_costs_now(), byteCount: byteCount)
            } catch {
                fatalError("\(chosen.name): \(error)")
            }
            return 0
        }
    }
}
