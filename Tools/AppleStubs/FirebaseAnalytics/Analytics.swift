public import Foundation
public import SwiftUI

open class Analytics: NSObject {
    open class func logEvent(_ name: String, parameters: [String: Any]?) {}
    open class func setUserProperty(_ value: String?, forName name: String) {}
    open class func setUserID(_ userID: String?) {}
    open class func setAnalyticsCollectionEnabled(_ analyticsCollectionEnabled: Bool) {}
    open class func appInstanceID() -> String? { nil }
    open class func resetAnalyticsData() {}
    open class func setDefaultEventParameters(_ parameters: [String: Any]?) {}
    open class func setConsent(_ consentSettings: [ConsentType: ConsentStatus]) {}
}

public struct ConsentType: Hashable, RawRepresentable, Sendable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }
    public static let adStorage = ConsentType(rawValue: "ad_storage")
    public static let analyticsStorage = ConsentType(rawValue: "analytics_storage")
    public static let adUserData = ConsentType(rawValue: "ad_user_data")
    public static let adPersonalization = ConsentType(rawValue: "ad_personalization")
}

public struct ConsentStatus: Hashable, RawRepresentable, Sendable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }
    public static let denied = ConsentStatus(rawValue: "denied")
    public static let granted = ConsentStatus(rawValue: "granted")
}

public let AnalyticsEventScreenView = "screen_view"
public let AnalyticsEventSelectContent = "select_content"
public let AnalyticsParameterContentType = "content_type"
public let AnalyticsParameterItemID = "item_id"
public let AnalyticsParameterScreenClass = "screen_class"
public let AnalyticsParameterScreenName = "screen_name"

extension View {
    public func analyticsScreen(
        name: String, class: String = "View", extraParameters: [String: Any] = [:]
    ) -> some View { EmptyView() }
}
