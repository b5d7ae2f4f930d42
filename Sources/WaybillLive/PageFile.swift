internal import CWaybillPage
internal import WaybillDigest

/// One file of the page, as it was when the program was built.
///
/// The files are in `Page/`; `CWaybillPage` takes them into the program.
package struct PageFile: Sendable {
    package let path: String
    package let contentType: String
    package let bytes: [UInt8]
    /// Changes with the content.
    package let tag: String

    private init(_ path: String, _ contentType: String, _ file: waybill_page_file) {
        self.path = path
        self.contentType = contentType
        self.bytes = Array(UnsafeBufferPointer(start: file.bytes, count: file.count))
        self.tag = "\"" + SHA256.digest(self.bytes).prefix(8).map { Self.hexadecimal($0) }.joined() + "\""
    }

    private static func hexadecimal(_ byte: UInt8) -> String {
        (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }

    package static let all = [
        PageFile("/", "text/html; charset=utf-8", waybill_page_html()),
        PageFile("/live.js", "text/javascript; charset=utf-8", waybill_page_script()),
        PageFile("/live.css", "text/css; charset=utf-8", waybill_page_style()),
    ]
}
