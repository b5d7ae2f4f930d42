internal import WaybillEvent
internal import WaybillSystem

extension WaybillClient.Configuration {
    /// The files of the spool, with the permissions that its agent needs.
    ///
    /// The folder of a group that exists with other permissions is given the right ones.
    func files() throws(WaybillError) -> POSIXFileSystem {
        guard let group else { return POSIXFileSystem(.spool) }
        guard let found = UserGroup(named: group) else {
            throw WaybillError(
                .configuration, "`group` is \(group), which this machine does not have; create it: groupadd \(group)")
        }
        let permissions = FilePermissions.spool(sharedBy: found)
        let files = POSIXFileSystem(permissions)
        do throws(FileSystemError) {
            guard !self.spool.isEmpty, try files.status(at: self.spool) != nil else { return files }
            try files.share(self.spool)
        } catch {
            throw WaybillError(
                .configuration,
                "the spool \(self.spool) is not shared by the group \(group): \(error); run "
                    + "chgrp \(group) \(self.spool) && chmod 2770 \(self.spool), as its owner or as root")
        }
        return files
    }

    var origin: EventOrigin {
        EventOrigin(
            app: self.version, build: self.build, bundle: self.bundle, os: self.device.os,
            osVersion: self.device.osVersion, model: self.device.model, language: self.language,
            environment: self.environment)
    }

    func check() throws(WaybillError) {
        if self.spool.isEmpty { throw WaybillError(missing: "spool", "name the app's own folder") }
        if self.bundle.isEmpty { throw WaybillError(missing: "bundle", "name the app, as in com.example.shop") }
        if self.version.isEmpty { throw WaybillError(missing: "version", "name the app's version, as in 1.4.2") }
        if self.build.isEmpty { throw WaybillError(missing: "build", "name the build, as in 118") }
        let texts = [
            self.version, self.build, self.bundle, self.device.os, self.device.osVersion ?? "",
            self.device.model ?? "", self.language ?? "",
        ]
        let byteCount = texts.reduce(0) { $0 + $1.utf8.count }
        if byteCount > Self.byteCountMax {
            throw WaybillError(
                .configuration,
                "the descriptions of app and device have \(byteCount) bytes; use at most \(Self.byteCountMax)")
        }
    }

    /// Half a line even if every byte is escaped with six; the rest is for fields.
    private static var byteCountMax: Int { 2048 }
}

extension WaybillError {
    init(missing field: String, _ remedy: String) {
        self.init(.configuration, "`\(field)` is empty; \(remedy)")
    }

    init(registeredFieldsOf configuration: WaybillClient.Configuration) {
        self.init(
            .configuration,
            "the \(configuration.registered.count) fields in `registered` exceed \(EventLimits.commonFieldsByteCountMax) "
                + "bytes, or a filter drops them; register fewer")
    }

    init(noThreadFor feature: String) {
        self.init(.noThread, "the system refused a thread for `\(feature)`; raise the process's limit, or leave it out")
    }

    init(environment: DeploymentEnvironment, _ configuration: WaybillClient.Configuration) {
        self.init(
            .configuration,
            "the spool \(configuration.spool) holds events of \(environment.rawValue); give "
                + "\(configuration.environment.rawValue) its own folder")
    }
}
