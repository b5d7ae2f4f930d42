package import NIOCore
package import WaybillSystem

/// The bytes of a data directory by part: measured when someone asks, on a thread of its own that gives way to all others.
///
///     request ─▶ measured lately: at once
///             └▶ a walk begins, or continues: its result if it comes within a second, else the last one
package final class DiskUsage: Sendable {
    /// What one part takes.
    package struct Part: Hashable, Sendable {
        package let name: String
        package var byteCount = 0
        package var fileCount = 0
    }

    /// The result of a walk.
    package struct Result: Hashable, Sendable {
        package let time: WallTime
        package let parts: [Part]
        /// Whether every file was counted.
        package let isComplete: Bool
    }

    private struct State {
        var last: Result?
        var isWalking = false
        var isStopped = false
        /// The next walk begins no sooner: it may take a twentieth of the time.
        var nextWalk = MonotonicTime(nanoseconds: 0)
        var waiting: [EventLoopPromise<Result?>] = []
    }

    /// A directory with more files is measured in part.
    static let fileCountMax = 2_000_000
    private static let pause = Duration.seconds(10)
    private static let patience = TimeAmount.seconds(1)

    private let state = Lock(State())
    private let root: String
    private let files: any FileSystem
    private let clock: any SystemClock

    package init(of root: String, on files: some FileSystem, clock: some SystemClock) {
        self.root = root
        self.files = files
        self.clock = clock
    }

    /// The last result, without a new walk.
    package var last: Result? { self.state.withLock { $0.last } }

    /// The usage now, or of the last seconds; `nil` if the first walk is not over yet.
    package func measure(on eventLoop: any EventLoop) -> EventLoopFuture<Result?> {
        let now = self.clock.monotonicTime()
        let promise = eventLoop.makePromise(of: Result?.self)
        let (begins, waits) = self.state.withLock { state -> (Bool, Bool) in
            guard !state.isStopped, state.isWalking || state.nextWalk <= now else { return (false, false) }
            let begins = !state.isWalking
            state.isWalking = true
            state.waiting.append(promise)
            return (begins, true)
        }
        guard waits else {
            promise.succeed(self.last)
            return promise.futureResult
        }
        let timeout = eventLoop.scheduleTask(in: Self.patience) { self.giveUp(promise) }
        promise.futureResult.whenComplete { _ in timeout.cancel() }
        if begins { _ = Worker(name: "waybill-usage") { self.walk() } }
        return promise.futureResult
    }

    /// Answers everyone who waits; no walk begins any more.
    package func stop() {
        let (waiting, last) = self.state.withLock { state in
            state.isStopped = true
            defer { state.waiting = [] }
            return (state.waiting, state.last)
        }
        for promise in waiting { promise.succeed(last) }
    }

    private func giveUp(_ promise: EventLoopPromise<Result?>) {
        let (isWaiting, last) = self.state.withLock { state in
            let count = state.waiting.count
            state.waiting.removeAll { $0.futureResult === promise.futureResult }
            return (state.waiting.count < count, state.last)
        }
        if isWaiting { promise.succeed(last) }
    }

    private func walk() {
        Worker.giveWay()
        let start = self.clock.monotonicTime()
        let result = self.count()
        let end = self.clock.monotonicTime()
        let waiting = self.state.withLock { state in
            state.last = result
            state.isWalking = false
            state.nextWalk = end + max(Self.pause, (end - start) * 20)
            defer { state.waiting = [] }
            return state.waiting
        }
        for promise in waiting { promise.succeed(result) }
    }

    /// Counts all files: each folder of the data directory is a part, and each export.
    package func count() -> Result {
        var parts: [Part] = []
        var rest = Self.fileCountMax
        for folder in self.folders(in: self.root) {
            guard folder == "exports" else {
                parts.append(self.part(folder, &rest))
                continue
            }
            for export in self.folders(in: Path.join(self.root, folder)) {
                parts.append(self.part(Path.join(folder, export), &rest))
            }
        }
        return Result(time: self.clock.wallTime(), parts: parts, isComplete: rest > 0)
    }

    private func folders(in path: String) -> [String] {
        do throws(FileSystemError) {
            var folders: [String] = []
            for name in try self.files.list(path).sorted()
            where try self.files.status(ofEntry: Path.join(path, name))?.kind == .directory {
                folders.append(name)
            }
            return folders
        } catch {
            // It was removed meanwhile, or cannot be read: nothing of it is counted.
            return []
        }
    }

    private func part(_ name: String, _ rest: inout Int) -> Part {
        var part = Part(name: name)
        var folders = [Path.join(self.root, name)]
        while let folder = folders.popLast(), rest > 0, !self.state.withLock({ $0.isStopped }) {
            do throws(FileSystemError) {
                for name in try self.files.list(folder) {
                    let path = Path.join(folder, name)
                    guard let status = try self.files.status(ofEntry: path) else { continue }
                    rest -= 1
                    switch status.kind {
                    case .directory: folders.append(path)
                    case .regular, .link, .other:
                        part.byteCount += status.byteCount
                        part.fileCount += 1
                    }
                }
            } catch {
                // As above.
            }
        }
        return part
    }
}
