package rpc

import (
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// fromSettings takes over the settings of a request. Package memory checks them.
func fromSettings(from *memoryv1.NamespaceSettings) (memory.Settings, error) {
	if from == nil {
		return memory.Settings{}, nil
	}
	expire, err := fromDuration("expire_unread_after", from.GetExpireUnreadAfter())
	return memory.Settings{
		CreateOnExisting:  fromEnum(from.CreateOnExisting, createOnExisting),
		ViewMaxChars:      from.ViewMaxChars,
		MaxFileBytes:      from.MaxFileBytes,
		MaxFiles:          from.MaxFiles,
		MaxTotalBytes:     from.MaxTotalBytes,
		CallsPerSecond:    from.CallsPerSecond,
		ExpireUnreadAfter: expire,
		Secrets:           fromEnum(from.Secrets, secretsPolicies),
	}, err
}

func toSettings(s memory.Settings) *memoryv1.NamespaceSettings {
	to := &memoryv1.NamespaceSettings{
		CreateOnExisting: toEnum(s.CreateOnExisting, createOnExisting),
		ViewMaxChars:     s.ViewMaxChars,
		MaxFileBytes:     s.MaxFileBytes,
		MaxFiles:         s.MaxFiles,
		MaxTotalBytes:    s.MaxTotalBytes,
		CallsPerSecond:   s.CallsPerSecond,
		Secrets:          toEnum(s.Secrets, secretsPolicies),
	}
	if d := s.ExpireUnreadAfter; d != nil {
		to.ExpireUnreadAfter = durationpb.New(*d)
	}
	return to
}

var createOnExisting = map[memoryv1.CreateOnExisting]memory.CreateOnExisting{
	memoryv1.CreateOnExisting_CREATE_ON_EXISTING_ERROR:     memory.CreateError,
	memoryv1.CreateOnExisting_CREATE_ON_EXISTING_OVERWRITE: memory.CreateOverwrite,
}

var secretsPolicies = map[memoryv1.SecretsPolicy]memory.SecretsPolicy{
	memoryv1.SecretsPolicy_SECRETS_POLICY_OFF:    memory.SecretsOff,
	memoryv1.SecretsPolicy_SECRETS_POLICY_REPORT: memory.SecretsReport,
	memoryv1.SecretsPolicy_SECRETS_POLICY_MASK:   memory.SecretsMask,
	memoryv1.SecretsPolicy_SECRETS_POLICY_REFUSE: memory.SecretsRefuse,
}

// fromEnum turns a value that is none of the enum into one that package memory refuses.
func fromEnum[F, T comparable](from *F, values map[F]T) *T {
	if from == nil {
		return nil
	}
	return new(values[*from])
}

func toEnum[F, T comparable](from *T, values map[F]T) *F {
	if from == nil {
		return nil
	}
	for f, t := range values {
		if t == *from {
			return new(f)
		}
	}
	return new(F)
}

// fromDuration refuses what is no duration, or too long for the clock.
func fromDuration(field string, from *durationpb.Duration) (*time.Duration, error) {
	if from == nil {
		return nil, nil
	}
	d := from.AsDuration()
	if from.CheckValid() != nil || durationpb.New(d).GetSeconds() != from.GetSeconds() {
		return nil, invalid(field, "%s must be a duration of at most 290 years, such as 2592000s", field)
	}
	return &d, nil
}

// defaultSetting is what the audit trail says of a setting that returns to the default.
const defaultSetting = "default"

// askedSettings are the settings that a request is to change, good or not. A name that is none is left out.
func askedSettings(req *memoryv1.UpdateNamespaceRequest) audit.Settings {
	settings := req.GetSettings().ProtoReflect()
	asked := map[string]string{}
	if names := req.GetUpdateMask().GetPaths(); len(names) > 0 {
		fields := settings.Descriptor().Fields()
		for _, name := range names {
			if field := fields.ByName(protoreflect.Name(name)); field != nil {
				asked[name] = settingText(settings, field)
			}
		}
		return audit.NewSettings(asked)
	}
	settings.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		asked[string(field.Name())] = settingText(settings, field)
		return true
	})
	return audit.NewSettings(asked)
}

// settingText is the value of a setting: of an enum its name without that of the enum.
func settingText(settings protoreflect.Message, field protoreflect.FieldDescriptor) string {
	if !settings.Has(field) {
		return defaultSetting
	}
	value := settings.Get(field)
	if enum := field.Enum(); enum != nil {
		named := enum.Values().ByNumber(value.Enum())
		if named == nil {
			return value.String()
		}
		prefix := strings.TrimSuffix(string(enum.Values().Get(0).Name()), "UNSPECIFIED")
		return strings.ToLower(strings.TrimPrefix(string(named.Name()), prefix))
	}
	if field.Message() != nil {
		if d, ok := value.Message().Interface().(*durationpb.Duration); ok {
			return d.AsDuration().String()
		}
	}
	return value.String()
}
