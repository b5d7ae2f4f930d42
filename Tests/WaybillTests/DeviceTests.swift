import Testing
import Waybill
import WaybillSystem

/// A machine that answers as a system does.
private struct FakeMachine: Machine {
    var kernel: KernelNames?
    var kernelTexts: [String: String] = [:]
    var variables: [String: String] = [:]
    var preferredLanguages: [String] = []

    func kernelText(_ name: String) -> String? { self.kernelTexts[name] }
    func variable(_ name: String) -> String? { self.variables[name] }

    /// Darwin 24.5.0 is the kernel of iOS 18.5 and macOS 15.5.
    private static func darwin(_ machine: String) -> KernelNames {
        KernelNames(system: "Darwin", release: "24.5.0", machine: machine)
    }

    static let iPhone = FakeMachine(
        kernel: darwin("iPhone16,2"),
        kernelTexts: ["kern.osproductversion": "18.5", "hw.machine": "iPhone16,2", "hw.model": "D84AP"],
        preferredLanguages: ["ko-KR", "en-KR"])

    static let watch = FakeMachine(
        kernel: darwin("Watch7,5"),
        kernelTexts: ["kern.osproductversion": "11.5", "hw.machine": "Watch7,5", "hw.model": "N217bAP"],
        preferredLanguages: ["de-CH"])

    static let mac = FakeMachine(
        kernel: darwin("arm64"),
        kernelTexts: [
            "kern.osproductversion": "15.5", "kern.iossupportversion": "18.5", "hw.machine": "arm64",
            "hw.model": "Mac14,2",
        ], preferredLanguages: ["zh-Hant-TW"])

    /// A process of the Mac, whose kernel answers.
    static var simulator: FakeMachine {
        var machine = self.mac
        machine.variables = [
            "SIMULATOR_MODEL_IDENTIFIER": "iPhone17,1", "SIMULATOR_RUNTIME_VERSION": "17.5",
            "SIMULATOR_DEVICE_NAME": "iPhone 16 Pro",
        ]
        machine.preferredLanguages = ["en"]
        return machine
    }

    static let debian = FakeMachine(
        kernel: KernelNames(system: "Linux", release: "6.1.0-40-amd64", machine: "x86_64"),
        variables: ["LANG": "de_DE.UTF-8"])
}

private typealias Device = WaybillClient.Device

@Suite struct DeviceTests {
    @Test(arguments: [
        (FakeMachine.iPhone, BuildTarget.device("iOS"), Device(os: "iOS", osVersion: "18.5", model: "iPhone16,2")),
        (.watch, .device("watchOS"), Device(os: "watchOS", osVersion: "11.5", model: "Watch7,5")),
        (.simulator, .simulator("iOS"), Device(os: "iOS", osVersion: "17.5", model: "iPhone17,1")),
        (.mac, .mac, Device(os: "macOS", osVersion: "15.5", model: "Mac14,2")),
        // An app for the iPhone that runs on a Mac.
        (.mac, .device("iOS"), Device(os: "iOS", osVersion: "18.5", model: "Mac14,2")),
        (.debian, .other, Device(os: "Linux", osVersion: "6.1.0-40-amd64", model: "x86_64")),
        (FakeMachine(), .other, Device(os: "unknown")),
    ])
    private func `a device is what its system calls it`(
        machine: FakeMachine, target: BuildTarget, device: Device
    ) {
        #expect(DeviceReader(machine, for: target).device == device)
    }

    /// A version that is missing is better than the kernel's, or the Mac's, in every report.
    @Test(arguments: [BuildTarget.device("iOS"), .device("watchOS"), .simulator("tvOS"), .mac])
    func `no system of Apple's is described by its kernel`(target: BuildTarget) {
        let machine = FakeMachine(
            kernel: FakeMachine.iPhone.kernel, kernelTexts: ["kern.osproductversion": "", "kern.osrelease": "24.5.0"],
            variables: ["SIMULATOR_RUNTIME_VERSION": ""])
        let device = DeviceReader(machine, for: target).device
        #expect(device.osVersion == nil)
        #expect(device.model == nil)
    }

    @Test func `this machine is described by its own system`() throws {
        let device = WaybillClient.Device.current
        let machine = ThisMachine()
        #expect(device == DeviceReader(machine, for: .current).device)
        let kernel = try #require(machine.kernel)
        #if os(Linux)
            #expect(device == WaybillClient.Device(os: "Linux", osVersion: kernel.release, model: kernel.machine))
        #else
            #expect(kernel.system == "Darwin")
            #expect(device.osVersion != nil && device.osVersion != kernel.release)
        #endif
    }

    @Test func `the language is the first that the user prefers`() {
        var machine = FakeMachine.iPhone
        machine.variables = ["LANG": "fr_FR.UTF-8"]
        #expect(DeviceReader(machine, for: .device("iOS")).language == "ko-KR")
        #expect(DeviceReader(FakeMachine.mac, for: .mac).language == "zh-Hant-TW")
        #expect(DeviceReader(FakeMachine.simulator, for: .simulator("iOS")).language == "en")
    }

    @Test(arguments: [
        (["LANG": "ko_KR.UTF-8"], "ko-KR"), (["LANG": "de"], "de"), (["LANG": "ca_ES@valencia"], "ca-ES"),
        (["LANG": "C.UTF-8"], nil), (["LANG": "POSIX"], nil), (["LANG": ""], nil), ([:], nil),
        (["LC_ALL": "fr_FR.UTF-8", "LC_MESSAGES": "it_IT", "LANG": "de_DE"], "fr-FR"),
        (["LC_ALL": "", "LC_MESSAGES": "it_IT", "LANG": "de_DE"], "it-IT"),
        (["LC_ALL": "C", "LANG": "de_DE"], nil),
        (["LANG": "de_DE.UTF-8", "LANGUAGE": "sv:de"], "sv"),
        (["LANG": "de_DE.UTF-8", "LANGUAGE": ""], "de-DE"),
        (["LANG": "C", "LANGUAGE": "sv:de"], nil), (["LANGUAGE": "sv"], nil),
    ])
    func `without a list of languages the locale of messages decides`(variables: [String: String], tag: String?) {
        let machine = FakeMachine(variables: variables)
        #expect(DeviceReader(machine, for: .other).language == tag)
    }
}
