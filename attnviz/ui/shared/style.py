"""The little that Streamlit's theme cannot say."""

import streamlit as st

CSS = """
.block-container {max-width: 1480px; padding: 4.25rem 2.5rem 4rem;}
.note {padding: .6rem .9rem; border-left: 3px solid; border-radius: 2px; margin: .25rem 0; overflow-wrap: anywhere;}
.note.error {border-color: #b3261e; background: rgba(179, 38, 30, .08);}
.note.notice {border-color: #8a6d00; background: rgba(138, 109, 0, .10);}
.unseen {position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap;}
[data-testid="stCaptionContainer"] {color: inherit; opacity: .8;}
.st-key-edits {min-height: 2.5rem;}
.st-key-changes {min-height: 2.5rem; min-width: 344px; overflow-x: auto;}
*:has(> .st-key-changes) {max-width: 45%;}
.st-key-changes > * {flex-shrink: 0;}
*:has(> [class*="st-key-pages"]) {position: fixed; top: 1.2rem; left: 154px; z-index: 999991; width: auto;}
[class*="st-key-pages"] {gap: .25rem;}
[class*="st-key-pages"] * {opacity: 1 !important;}
.words {font-size: 1.125rem; line-height: 1.5; min-height: 1.7rem; overflow-wrap: anywhere;
        font-variant-numeric: tabular-nums;}
.says {font-size: 1.125rem; line-height: 1.5; overflow-wrap: anywhere;
       font-variant-numeric: tabular-nums;}
.says > span:not(.quiet) {display: inline-block; margin-right: 2rem;}
.says u {font-weight: 700; text-decoration-thickness: 2px; text-underline-offset: 3px;}
.st-key-beside, *:has(> .st-key-beside) {flex: 1 1 290px !important; min-width: 290px;}
.narrow {display: none;}
.large {font-size: 1.125rem; line-height: 1.5; overflow-wrap: anywhere;}
.quiet {font-size: .875rem; opacity: .78; overflow-wrap: anywhere; font-variant-numeric: tabular-nums;}
.heading {font-size: 1.6rem; font-weight: 650; margin: 0; padding: 0;}
.section {font-size: 1.125rem; font-weight: 600; margin: .75rem 0 0; padding: 0;}
.text {line-height: 1.5; overflow-wrap: anywhere; margin: 0;}
ul.text {padding-left: 1.25rem;}
.facts {border-collapse: collapse; width: 100%; line-height: 1.4;}
.facts th, .facts td {text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0; overflow-wrap: anywhere;}
.facts tr {border-bottom: 1px solid rgba(128, 128, 128, .3);}
.facts th {font-size: .875rem; font-weight: 600;}
.facts .odd {color: #a21caf; color: light-dark(#a21caf, #e879f9);}
.fills th, .fills td {min-width: 9rem;}
.printout {overflow: auto; max-height: 260px; margin: 0; padding: .75rem 1rem; font-size: .8125rem; line-height: 1.5;
           border: 1px solid rgba(128, 128, 128, .3); border-radius: .4rem;}
*:has(> .st-key-beside-convention), *:has(> .st-key-beside-leaks),
*:has(> .st-key-beside-policies) {flex: 1 1 290px !important; min-width: 290px;}
.facts .goal {white-space: nowrap;}
.facts .number {text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap;}
.st-key-maps, *:has(> .st-key-maps) {flex: 1 1 620px !important; min-width: 0;}
[class*="st-key-icon-"] button [data-testid="stMarkdownContainer"] {
  position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap;}
[class*="st-key-rule-"] {border-left: 2px solid rgba(128, 128, 128, .35); padding-left: .7rem;}
.reach {border-collapse: collapse; line-height: 1.4; font-variant-numeric: tabular-nums;}
.reach th, .reach td {text-align: left; font-size: .875rem; font-weight: 400; padding: .15rem .75rem .15rem 0;}
.reach i {display: inline-block; width: 13px; height: 13px; margin: 0 2px -1px 0; border: 1px solid; border-radius: 2px;
          opacity: .45;}
.reach i.seen {background: currentColor; opacity: .85;}
.equation {font: italic 1.35rem/1.6 "STIX Two Math", "Cambria Math", "Latin Modern Math", Georgia, serif;
           padding: .2rem 0; overflow-wrap: anywhere;}
.equation mark {background: rgba(62, 163, 209, .22); color: inherit; border-bottom: 2px solid; border-radius: 2px;
                padding: .1rem .15rem;}
.equation sub {font-size: .7em;}
.stApp .stCode pre .token {color: inherit;}
.stApp .stCode .token:is(.keyword, .function, .class-name) {color: light-dark(#1265b0, #4aa3f0);}
.stApp .stCode .token:is(.number, .boolean) {color: light-dark(#0d7468, #29b09d);}
.stApp .stCode .token.string {color: light-dark(#067d2a, #21c354);}
.stApp .stCode .token.operator {color: light-dark(#b04a00, #ed8b3a);}
.stApp .stCode .token.comment {color: light-dark(#5b6675, #98a2b3);}
.scrolls {overflow-x: auto; max-width: 100%;}
.facts.walked {width: auto;}
.facts.walked td, .facts.walked th {font-size: .875rem; padding: .2rem 1rem .2rem 0; white-space: nowrap;}
.facts.walked tr.marked td {box-shadow: inset 0 0 0 99px rgba(62, 163, 209, .14); font-weight: 600;}
.st-key-steps {align-items: flex-start;}
.st-key-stage, *:has(> .st-key-stage) {flex: 1 1 420px !important; min-width: min(420px, 100%);}
.facts small {font-size: .8rem; opacity: .75;}
.st-key-examples {flex-wrap: nowrap;}
.st-key-examples > :first-child {flex: 1 1 0; min-width: 0;}
.st-key-input [data-testid="stButtonGroup"] > div {max-height: 82px; overflow: hidden;}
@media (max-width: 640px) {
  .block-container {padding-left: 1rem; padding-right: 1rem;}
  .st-key-changes, *:has(> .st-key-changes) {max-width: 100%; min-width: 0;}
  .st-key-input [data-testid="stButtonGroup"] > div {flex-wrap: nowrap; overflow-x: auto;}
  .st-key-input [data-testid="stButtonGroup"] button {flex-shrink: 0;}
  *:has(> [class*="st-key-pages"]) {position: static; width: 100%;}
  .narrow {display: block;}
  .st-key-overview, *:has(> .st-key-overview) {order: 2;}
  .st-key-list, *:has(> .st-key-list) {order: 1;}
}
[class*="st-key-picture"] {overflow-x: auto;}
"""


def apply() -> None:
    st.html(f"<style>{CSS}</style>")
