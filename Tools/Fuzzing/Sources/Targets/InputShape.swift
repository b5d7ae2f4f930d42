/// What the inputs of a target are made of, for ``Mutator``.
///
/// What is in brackets, in quotes, or a word is a piece in every format.
struct InputShape: Sendable {
    /// What can be around a piece any number of times.
    var wrappers: [(opening: [UInt8], closing: [UInt8])] = []
    /// What stands between a piece and the next of its kind.
    var joints: [[UInt8]] = [[]]
    /// What parsers know.
    var words: [[UInt8]]

    private init(wrappers: [(String, String)] = [], joints: [String] = [""], words: [String]) {
        self.wrappers = wrappers.map { (Array($0.0.utf8), Array($0.1.utf8)) }
        self.joints = joints.map { Array($0.utf8) }
        self.words = words.map { Array($0.utf8) } + Self.bytes
    }

    private static let bytes: [[UInt8]] = [[0xFF, 0xFF, 0xFF, 0xFF], [0, 0, 0, 0], [0xED, 0xA0, 0x80], [0xC0]]
    private static let numbers = [
        "0", "-0", "1e9", "1e400", "0.", "65536", "2147483648", "4294967295", "9007199254740991", "9007199254740992",
        "9223372036854775807", "-9223372036854775808", "18446744073709551616",
    ]
    private static let jsonWords = [
        "\"", "\\u0000", "\\ud800", "\\", "{", "}", "[", "]", ":", ",", "null", "true", "\n", " ",
    ]

    /// Inputs whose bytes are decisions of the target: there are no pieces.
    static let decisions = InputShape(words: ["MARK ", "OPEN ", "=", "%", "-", "\n", "9223372036854775807"])

    static let json = InputShape(
        wrappers: [("[", "]"), ("{\"a\":", "}"), ("\"", "\"")], joints: [",", ",\n", ""],
        words: Self.jsonWords + Self.numbers + ["\u{FEFF}"])

    /// Lines of events, requests of them, and texts in percent signs.
    static let lines = InputShape(
        wrappers: [("[", "]"), ("{\"a\":", "}"), ("{\"batch\":[", "]}"), ("\"", "\"")],
        joints: [",", "\n", "&", ""],
        words: Self.jsonWords + Self.numbers + ["\u{FEFF}", "%00", "%", "+", "=", "&data="])

    static let messages = InputShape(
        wrappers: [("[", "]"), ("{\"a\":", "}")], joints: [" ", ",", "\n"],
        words: Self.jsonWords + Self.numbers + [
            "HELLO ", "READY ", "OPEN 7 ", "AT ", "BATCH ", "ACK ", "NAK ", "SKIP ", "SEAL ", "SEALED ", "STORED ",
            "MARK ", "TAIL ", "NOTE ", "WAIT ", "MOVE ", "ERR ", "\r\n",
        ])

    static let http = InputShape(
        wrappers: [("[", "]"), ("{\"a\":", "}"), ("/", ""), ("%25", "")], joints: ["\r\n", "&", ",", "/", ""],
        words: Self.jsonWords + Self.numbers + [
            "GET ", "POST ", " HTTP/1.1\r\n", "\r\n\r\n", "Content-Encoding: gzip\r\n", "Content-Encoding: deflate\r\n",
            "X-Forwarded-For: ", "User-Agent: ", "Accept-Language: ", "Sec-CH-UA-Model: ", ";q=0.8", "data=", "?",
            "%7B",
            "%", "+", "=", "::ffff:192.0.2.1", "/v1/", "/settings", "\u{1F}\u{8B}\u{8}",
        ])

    static let yaml = InputShape(
        wrappers: [
            ("[", "]"), ("{a: ", "}"), ("- ", ""), ("a:\n ", ""), ("? ", ""), ("\"", "\""), ("'", "'"), ("!!t ", ""),
        ],
        joints: ["\n", ", ", "\n  ", "\n- ", ""],
        words: Self.numbers + [
            "&a ", "*a", "<<: *a", "|\n", ">-\n", "---\n", "...\n", "%YAML 1.2\n", "%TAG ! x\n", "\t", "# ", "${HOME}",
            "~", "\\x00", "\\u2028", "\u{FEFF}", "!!binary ", ": ", "\r",
        ])

    static let xml = InputShape(
        wrappers: [
            ("<a>", "</a>"), ("<Contents>", "</Contents>"), ("<![CDATA[", "]]>"), ("<!--", "-->"), ("<?", "?>"),
            ("<x:Key a=\"'>\">", "</x:Key>"),
        ],
        joints: ["", "\n"],
        words: Self.numbers + [
            "&lt;", "&amp", "&#x10FFFF;", "&#0;", "&#xD800;", "<!DOCTYPE a [<!ENTITY b \"c\">]>", "<a/>", "&b;", "\"",
            "'", "<", ">", "/", "%00", "%2F", "<IsTruncated>true</IsTruncated>", "<EncodingType>url</EncodingType>",
        ])
}
