import ArgumentParser
import WaybillArchive
import WaybillConsole
import WaybillExport
import WaybillJSON
import WaybillProjection
import WaybillProtocol
import WaybillSystem

struct SetAsideCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set-aside",
        abstract: "Have a receiver not read one line, because reading it ends the program.",
        discussion: """
            Examples:
              waybill set-aside --data /var/lib/waybill --stream 8f14e45fceea167a-00000000000000000001 --offset 48
              waybill set-aside --data /var/lib/waybill --stream 8f14e45f… --offset 48 --reader ga4

            A receiver sets aside by itself what ended it twice by a fault of its own. This is for what ends it otherwise,
            as a line that fills the memory does: the log names stream and offset (WB1318). Stop the receiver first. The
            line goes to the quarantine, byte for byte, or with --reader to this export's dead letters, and the rest goes
            on. After an upgrade that reads it, waybill requeue --after-version brings it back.
            """)

    @Option(help: "A receiver's data directory.")
    var data: String

    @Option(help: "The stream of the line.")
    var stream: String

    @Option(help: "Where the line begins in its stream.")
    var offset: UInt64

    @Option(help: "The owner of the stream, where the receiver knows agents.")
    var principal = ""

    @Option(help: "Who does not read it: archive (then nothing does), exports, or the name of an export.")
    var reader = PoisonOffsets.archive

    func run() throws {
        guard let id = StreamID(self.stream) else {
            throw ValidationError("\"\(self.stream)\" is not the id of a stream; take it from the message in the log")
        }
        if ![PoisonOffsets.archive, PoisonOffsets.exports].contains(self.reader),
            Destination(customName: self.reader) == nil
        {
            _ = try OptionReader.provider(self.reader)
        }
        let files = POSIXFileSystem(.data, dataDirectory: self.data)
        let data = DataDirectory(root: self.data, files: files)
        do {
            guard try files.status(at: data.state)?.kind == .directory else {
                Console.printError("\(self.data) is not the data directory of a receiver: it has no folder named state")
                throw ExitCode.noInput
            }
            let lock = try data.lock(processID: ProcessID.current)
            defer { files.close(lock) }
            let line = PoisonedLine(
                reader: self.reader, stream: StreamName(principal: self.principal, id: id), offset: self.offset,
                byteCount: 0, signal: 0, version: packageVersion, at: POSIXClock().wallTime())
            guard let all = try PoisonedLines.add(line, in: data) else {
                Console.printError("\(PoisonedLines.countMax) lines are set aside already, which is the limit")
                throw ExitCode.badInput
            }
            let json = JSONWriter.object { json in
                json.member("reader", self.reader)
                json.member("stream", id.text)
                json.member("offset", Int(clamping: self.offset))
                json.member("lines", all.lines.count)
            }
            print(String(decoding: json, as: UTF8.self))
        } catch let error as DataDirectoryError {
            Console.printError("\(error)")
            throw ExitCode.inUse
        } catch let error as FileSystemError {
            Console.printError("the line cannot be set aside: \(error)")
            throw ExitCode.files
        }
    }
}
