import Testing
import WaybillAgent
import WaybillHost
import WaybillServerTestSupport
import WaybillSystem
import WaybillTail

private let token = "0123456789abcdef"

@Test(arguments: [token, token + "\n", token + "\r\n", String(repeating: "x", count: 4096)])
func `a token is the first line of its file`(text: String) throws {
    let read = try TokenFile.token(in: Array(text.utf8), of: "t")
    #expect(read.revealed == text.filter { !$0.isNewline })
}

private let refused: [(text: String, failure: TokenFile.Failure)] = [
    ("", .tooShort(source: "t")), ("\n", .tooShort(source: "t")), ("0123456789abcde\n", .tooShort(source: "t")),
    ("0123456789abcdef ", .notText(source: "t")), ("0123456789abcdef\n0123456789abcdef", .notText(source: "t")),
    ("0123456789abcdeé", .notText(source: "t")), (String(repeating: "x", count: 4097), .tooLong(source: "t")),
]

@Test(arguments: refused)
func `anything else is refused, and the message does not show it`(text: String, failure: TokenFile.Failure) {
    #expect(throws: failure) { try TokenFile.token(in: Array(text.utf8), of: "t") }
    #expect(!"\(failure)".contains(token))
}

@Test func `a token file is read again each time, and takes precedence`() throws {
    let place = try Place()
    let path = place.path + "/shop.token"
    var configuration = AgentConfiguration(
        name: try #require(AgentName("a")), stateDirectory: "", receivers: [], sources: [])
    configuration.token = Secret("from the environment")
    #expect(try configuration.presentToken(on: POSIXFileSystem())?.revealed == "from the environment")
    configuration.tokenFile = path
    #expect(throws: TokenFile.Failure.missing(path: path)) { try configuration.presentToken(on: POSIXFileSystem()) }
    for text in [token, token + "-2"] {
        try POSIXFileSystem().replace(path, with: Array((text + "\n").utf8))
        #expect(try configuration.presentToken(on: POSIXFileSystem())?.revealed == text)
    }
}
