import ArgumentParser
import WaybillAgent
import WaybillHost
import WaybillProtocol
import WaybillReceiver
import WaybillSystem

struct TokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Make a token for agents, and its digest for the receiver.",
        discussion: """
            Examples:
              (umask 077; waybill token > shop.token)       for the agent: token_file, or WAYBILL_TOKEN
              waybill token --digest shop.token             for the receiver's agents: sha256:…
              printf %s "$TOKEN" | waybill token --digest   the same, from standard input

            Without --digest it prints a new token of 256 random bits to standard output, and its digest to standard
            error. The receiver keeps digests alone; no one can make a token from one.
            """)

    @Flag(help: "Print the digest of a token that exists, from a file or from standard input.")
    var digest = false

    @Argument(help: "With --digest: the file with the token; without it, standard input is read.")
    var file: String?

    func validate() throws {
        if self.file != nil, !self.digest { throw ValidationError("a file is read with --digest alone") }
    }

    func run() throws {
        guard self.digest else {
            let token = try Self.made()
            print(token.revealed)
            Console.printError(Self.digest(of: token))
            return
        }
        let token: Secret
        do throws(TokenFile.Failure) {
            if let file {
                token = try TokenFile(path: file).read(on: POSIXFileSystem())
            } else {
                token = try Self.fromStandardInput()
            }
        } catch {
            Console.printError("\(error)")
            throw ExitCode.badInput
        }
        print(Self.digest(of: token))
    }

    private static func made() throws -> Secret {
        do throws(FileSystemError) {
            let bytes = try SystemRandom.secretBytes(count: 32)
            guard let token = Secret(Base64.urlText(bytes)) else { preconditionFailure("43 characters are a token") }
            return token
        } catch {
            Console.printError("\(error)")
            throw ExitCode.files
        }
    }

    private static func digest(of token: Secret) -> String {
        TokenDigest(of: token.revealed).text
    }

    private static func fromStandardInput() throws(TokenFile.Failure) -> Secret {
        try TokenFile.token(in: Array((readLine(strippingNewline: true) ?? "").utf8), of: "standard input")
    }
}
