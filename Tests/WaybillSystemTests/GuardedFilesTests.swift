import Testing
import WaybillSystem
import WaybillTestSupport

/// Calls on mounts that do not answer.
///
/// No test measures a time: a call that hangs waits for the test, and one that does not may take as long as it likes.
struct GuardedFilesTests {
    private let disk = MemoryDisk()
    private let stalled: StalledFiles<MemoryDisk>
    private let source: GivenMounts
    private let patience = GivenPatience()
    private let mounts: RemoteMounts
    private let files: GuardedFiles<StalledFiles<MemoryDisk>>

    init() {
        for path in ["/far/a", "/other/a", "/near/a", "/state/a"] { self.disk.place(path, Array("\(path)\n".utf8)) }
        self.stalled = StalledFiles(self.disk)
        self.source = GivenMounts(
            ["/far", "/other"],
            links: ["/near/link": "/far/a", "/near/folder": "../far", "/near/loop": "loop", "/up": "/near"])
        self.mounts = RemoteMounts(except: "/state", self.source, patience: { [patience] in patience.value })
        self.files = GuardedFiles(self.stalled, self.mounts)
    }

    /// A call on a mount that hangs from now on.
    private func hang<Value>(_ folder: String, _ call: () throws -> Value) {
        self.stalled.stall(folder)
        self.patience.end()
        #expect(throws: FileSystemError.self) { try call() }
        self.patience.begin()
    }

    /// Lets everything continue, and returns once calls are made again.
    private func settle() {
        self.stalled.release()
        repeat { self.mounts.refresh(POSIXClock().monotonicTime()) } while !self.mounts.hanging.isEmpty
    }

    private func text(of path: String) throws -> String {
        String(decoding: try self.files.contents(of: path) ?? [], as: UTF8.self)
    }

    // MARK: Which thread

    @Test(arguments: ["/far/a", "/far", "/near/link", "/near/folder/a", "/up/folder/a", "/near/../far/./a"])
    func `the mount's thread makes calls at paths that lead there`(_ path: String) throws {
        _ = try? self.files.status(at: path)  // What is there is of no interest.
        #expect(self.stalled.threadedCount(at: path) == 1)
    }

    @Test(arguments: ["/near/a", "/", "/near/loop", "/near/loop/a", "/farther/a", "/far/../near/a", "/missing/a"])
    func `the caller itself makes all others`(_ path: String) throws {
        // A mount's `..` is not asked for: what is written behind a mount is taken for a part of it.
        let isBehind = path.hasPrefix("/far/")
        _ = try? self.files.status(at: path)  // What is there is of no interest.
        #expect(self.stalled.threadedCount(at: path) == (isBehind ? 1 : 0))
    }

    @Test
    func `a link itself is not followed`() throws {
        _ = try self.files.status(ofEntry: "/near/link")
        #expect(self.stalled.threadedCount(at: "/near/link") == 0)
    }

    @Test
    func `open files and names in open folders are the mount's, too`() throws {
        let folder = try self.files.open("/far", .folder)
        let file = try self.files.open("a", in: folder)
        _ = try self.files.status(of: "a", in: folder)
        _ = try self.files.status(file)
        var bytes = [UInt8](repeating: 0, count: 7)
        #expect(try self.files.readFully(file, at: 0, into: &bytes) == 7)
        #expect(bytes == Array("/far/a\n".utf8))
        #expect(self.stalled.threadedCount(at: "/far/a") >= 4)
        self.files.close(file)
        self.files.close(folder)
        #expect(self.stalled.openCount == 0)
    }

    @Test
    func `the state directory is the caller's, wherever it is`() throws {
        let mounts = RemoteMounts(except: "/far/state", GivenMounts(["/far"]))
        let files = GuardedFiles(self.stalled, mounts)
        _ = try files.status(at: "/far/state/a")
        #expect(self.stalled.threadedCount(at: "/far/state/a") == 0)
        _ = try files.status(at: "/far/state-of-others")
        #expect(self.stalled.threadedCount(at: "/far/state-of-others") == 1)
    }

    @Test
    func `without such a mount there is no thread`() throws {
        let files = GuardedFiles(self.stalled, RemoteMounts(GivenMounts([])))
        _ = try files.contents(of: "/far/a")
        #expect(self.stalled.threadedCount(at: "/far/a") == 0)
    }

    // MARK: Hanging

    @Test
    func `a call that does not return is told with its mount, and others on it fail at once`() throws {
        self.stalled.stall("/near/folder")
        self.patience.end()
        let error = #expect(throws: FileSystemError.self) { try self.files.status(at: "/near/folder/a") }
        #expect(error?.code == .hanging)
        #expect(error.map { "\($0)".contains("the file system at /far does not answer") } ?? false)
        self.patience.begin()
        for _ in 0..<100 {
            #expect(throws: FileSystemError.self) { try self.files.open("/far/a", .read) }
        }
        #expect(self.stalled.waitingCount == 1)
        #expect(self.mounts.hanging.map(\.path) == ["/far"])
        #expect(self.mounts.hangingMount(of: "/near/link") == "/far")
        #expect(self.mounts.hangingMount(of: "/near/a") == nil)
        self.settle()
    }

    @Test
    func `other places continue, and the mount does once it answers`() throws {
        self.hang("/far") { try self.files.list("/far") }
        #expect(try self.text(of: "/near/a") == "/near/a\n")
        #expect(try self.text(of: "/other/a") == "/other/a\n")
        self.settle()
        #expect(try self.text(of: "/far/a") == "/far/a\n")
        #expect(self.mounts.hangingMount(of: "/far/a") == nil)
    }

    @Test
    func `within one look a mount either answers or does not`() throws {
        self.hang("/far") { try self.files.list("/far") }
        self.stalled.release()
        for _ in 0..<1000 {
            #expect(throws: FileSystemError.self) { try self.files.status(at: "/far/a") }
        }
        self.settle()
        #expect(try self.files.status(at: "/far/a") != nil)
    }

    @Test
    func `a file that was opened too late is closed`() throws {
        self.hang("/far") { try self.files.open("/far/a", .read) }
        #expect(self.stalled.openCount == 0)
        self.settle()
        #expect(self.stalled.openCount == 0)
        let file = try self.files.open("/far/a", .read)
        #expect(self.stalled.openCount == 1)
        self.files.close(file)
    }

    @Test
    func `a late read writes into no memory of its caller`() throws {
        let file = try self.files.open("/far/a", .read)
        var bytes = [UInt8](repeating: 7, count: 16)
        self.hang("/far") { try self.files.readFully(file, at: 0, into: &bytes) }
        self.settle()
        #expect(bytes == [UInt8](repeating: 7, count: 16))
        #expect(try self.files.readFully(file, at: 0, into: &bytes) == 7)
        self.files.close(file)
    }

    @Test
    func `files that are closed meanwhile are closed later`() throws {
        let first = try self.files.open("/far/a", .read)
        let second = try self.files.open("/far/a", .read)
        self.hang("/far") { try self.files.status(first) }
        self.files.close(first)
        self.files.close(second)
        #expect(self.stalled.openCount == 2)
        self.settle()
        #expect(self.stalled.openCount == 0)
    }

    @Test
    func `a close that hangs keeps its caller no longer than another call`() throws {
        let file = try self.files.open("/far/a", .read)
        self.stalled.stall("/far")
        self.patience.end()
        self.files.close(file)
        self.patience.begin()
        #expect(self.mounts.hanging.count == 1)
        self.settle()
        #expect(self.stalled.openCount == 0)
    }

    // MARK: Bounds

    @Test
    func `many mounts that hang hold a few threads`() throws {
        let paths = (0..<40).map { "/many/\($0)" }
        self.source.mount(paths)
        self.mounts.refresh(POSIXClock().monotonicTime())
        self.stalled.stall("/many")
        self.patience.end()
        for path in paths {
            let error = #expect(throws: FileSystemError.self) { try self.files.status(at: path + "/a") }
            #expect(error?.code == .hanging)
        }
        self.patience.begin()
        #expect(self.stalled.waitingCount == RemoteMounts.threadCountMax)
        #expect(self.mounts.hanging.count == RemoteMounts.threadCountMax)
        self.settle()
        #expect(try self.files.status(at: "/many/39/a") == nil)
    }

    @Test
    func `a mount that was made again works at once, whatever hangs on the former`() throws {
        self.hang("/far/hung") { try self.files.status(at: "/far/hung/a") }
        self.source.mount(["/far", "/other"], first: 200)
        self.mounts.refresh(POSIXClock().monotonicTime())
        #expect(try self.text(of: "/far/a") == "/far/a\n")
        #expect(self.mounts.hanging.isEmpty)
        #expect(self.mounts.hangingMount(of: "/far/a") == nil)
        #expect(self.stalled.waitingCount == 1)
        self.stalled.release()
    }
}
