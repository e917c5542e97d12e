package rpc

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

func TestAskedSettings(t *testing.T) {
	every := &memoryv1.NamespaceSettings{
		CreateOnExisting: memoryv1.CreateOnExisting_CREATE_ON_EXISTING_OVERWRITE.Enum(), ViewMaxChars: new(int64(0)),
		MaxFileBytes: new(int64(1)), MaxFiles: new(int64(2)), MaxTotalBytes: new(int64(-3)), CallsPerSecond: new(int64(4)),
		ExpireUnreadAfter: durationpb.New(720 * time.Hour), Secrets: memoryv1.SecretsPolicy_SECRETS_POLICY_OFF.Enum(),
	}
	tests := []struct {
		name     string
		settings *memoryv1.NamespaceSettings
		mask     []string
		want     string
	}{
		{"nothing", nil, nil, ""},
		{
			"every", every, nil,
			`{"calls_per_second":"4","create_on_existing":"overwrite","expire_unread_after":"720h0m0s","max_file_bytes":"1",` +
				`"max_files":"2","max_total_bytes":"-3","secrets":"off","view_max_chars":"0"}`,
		},
		{"some", every, []string{"secrets", "max_files", "secrets"}, `{"max_files":"2","secrets":"off"}`},
		{"back to the default", nil, []string{"secrets", "view_max_chars"}, `{"secrets":"default","view_max_chars":"default"}`},
		{"no names of settings", every, []string{"max_file", "", "secrets.x", "*"}, ""},
		{
			"no value of an enum", &memoryv1.NamespaceSettings{Secrets: new(memoryv1.SecretsPolicy(77))}, nil,
			`{"secrets":"77"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := askedSettings(&memoryv1.UpdateNamespaceRequest{
				Settings: tt.settings, UpdateMask: &fieldmaskpb.FieldMask{Paths: tt.mask},
			})
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestAskedSettings_Names has all settings be fields by the same names, which is how they are found.
func TestAskedSettings_Names(t *testing.T) {
	fields := (&memoryv1.NamespaceSettings{}).ProtoReflect().Descriptor().Fields()
	for _, name := range memory.SettingNames() {
		if fields.ByTextName(name) == nil {
			t.Errorf("%s is no field of NamespaceSettings", name)
		}
	}
}
