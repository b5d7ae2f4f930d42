import Testing
import WaybillEvent
import WaybillExport
import WaybillServerTestSupport
import WaybillSystem

@Suite struct LinePatternsTests {
    @Test(arguments: [
        ("com.example", "com.example", true), ("com.example", "com.example2", false),
        ("com.example", "com.exampl", false),
        ("com.example.*", "com.example.shop", true), ("com.example.*", "com.example.", true),
        ("com.example.*", "com.example", false), ("*", "", true), ("*", "x", true), ("", "", true), ("", "x", false),
        ("*.shop", "com.example.shop", true), ("*.shop", "com.example.shopping", false),
        ("a*b*c", "a-b-b-c", true), ("a*b*c", "a-c-b", false), ("*ab", "aab", true), ("a**b", "ab", true),
        ("com.example", "COM.EXAMPLE", false),
    ])
    func `an asterisk stands for any characters`(pattern: String, text: String, matches: Bool) {
        #expect(TextPattern(pattern).matches(text) == matches)
    }

    private func line(env: String, bundle: String) -> String {
        #"{"v":1,"id":"x","ts":"2025-03-01T09:14:15.926Z","name":"a","bundle":"\#(bundle)","env":"\#(env)"}"#
    }

    @Test(arguments: [
        ("prod", "com.example.shop", true), ("dev", "com.example.shop", false), ("prod", "com.rival.shop", false),
        ("prod", #"com.ex\u0061mple.shop"#, true), ("prod", #"com.r\u0069val.shop"#, false),
    ])
    func `an event outside its owner's patterns goes to the quarantine`(env: String, bundle: String, isEvent: Bool) {
        let patterns = LinePatterns(environments: ["prod"], bundles: ["com.example.*"])
        let source = SourceDescription(env: .dev, bundle: "unknown", patterns: patterns)
        let reading = read(self.line(env: env, bundle: bundle), source: source)
        if case .event = reading {
            #expect(isEvent)
        } else {
            #expect(!isEvent && reading == .quarantine(.notAllowed))
        }
    }

    @Test(arguments: [
        (DeploymentEnvironment.prod, "com.example.web", true), (.dev, "com.example.web", false), (.prod, "b", false),
    ])
    func `foreign lines are judged by their source`(env: DeploymentEnvironment, bundle: String, isEvent: Bool) {
        let patterns = LinePatterns(environments: ["p*"], bundles: ["com.example.*"])
        let source = SourceDescription(env: env, bundle: bundle, isForeign: true, patterns: patterns)
        let reading = read(#"{"ts":"2025-03-01T09:14:15.926Z"}"#, source: source)
        #expect((reading == .quarantine(.notAllowed)) == !isEvent)
    }

    @Test func `what is no event keeps its reason, whatever the patterns`() {
        let source = SourceDescription(
            env: .prod, bundle: "b", patterns: LinePatterns(environments: ["dev"], bundles: ["x"]))
        #expect(read("{", source: source) == .quarantine(.notJSON))
        #expect(read(self.line(env: "staging", bundle: "b"), source: source) == .quarantine(.badEnv))
    }
}
